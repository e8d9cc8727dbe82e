"""The lists of the TFLite schema (version 3): element types, operators, option tables, enumerations.

Data only. ``tests/test_schema.py`` compares every list with the published ``tflite`` package, which is not
needed at run time.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TENSOR_TYPES: tuple[str, ...] = _words(
    """
float32 float16 int32 uint8 int64 string bool int16 complex64 int8 float64 complex128 uint64 resource variant
uint32 uint16 int4 bfloat16 int2 uint4 float8_e4m3fn float8_e5m2
"""
)

OPERATORS: tuple[str, ...] = _words(
    """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP
FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX
SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD
UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE
UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX
DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER
GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL
NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT
LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE
RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2
ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND
HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY
SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D
IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL
BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD
UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR
RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM
STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION
STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE
STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR
STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH
STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE
STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL
STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE
STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT
STABLEHLO_CASE
"""
)

# The unions BuiltinOptions and BuiltinOptions2: position = union type, names without the suffix "Options".
OPTIONS_UNION: tuple[str, ...] = _words(
    """
NONE Conv2D DepthwiseConv2D ConcatEmbeddings LSHProjection Pool2D SVDF RNN FullyConnected Softmax
Concatenation Add L2Norm LocalResponseNormalization LSTM ResizeBilinear Call Reshape SkipGram
SpaceToDepth EmbeddingLookupSparse Mul Pad Gather BatchToSpaceND SpaceToBatchND Transpose Reducer Sub
Div Squeeze SequenceRNN StridedSlice Exp TopKV2 Split LogSoftmax Cast Dequantize MaximumMinimum ArgMax
Less Neg PadV2 Greater GreaterEqual LessEqual Select Slice TransposeConv SparseToDense Tile ExpandDims
Equal NotEqual Shape Pow ArgMin FakeQuant Pack LogicalOr OneHot LogicalAnd LogicalNot Unpack FloorDiv
Square ZerosLike Fill BidirectionalSequenceLSTM BidirectionalSequenceRNN UnidirectionalSequenceLSTM
FloorMod Range ResizeNearestNeighbor LeakyRelu SquaredDifference MirrorPad Abs SplitV Unique ReverseV2
AddN GatherNd Cos Where Rank ReverseSequence MatrixDiag Quantize MatrixSetDiag HardSwish If While
DepthToSpace NonMaxSuppressionV4 NonMaxSuppressionV5 ScatterNd SelectV2 Densify SegmentSum BatchMatMul
Cumsum CallOnce BroadcastTo Rfft2d Conv3D Hashtable HashtableFind HashtableImport HashtableSize
VarHandle ReadVariable AssignVariable Random Bucketize Gelu DynamicUpdateSlice UnsortedSegmentProd
UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentSum ATan2 Sign Bitcast BitwiseXor RightShift
"""
)
OPTIONS_UNION_2: tuple[str, ...] = _words(
    """
NONE StablehloConcatenate StablehloBroadcastInDim StablehloSlice StablehloConvolution
StablehloCustomCall StablehloReduce StablehloScatter StablehloCompare StablehloDynamicSlice StablehloPad
StablehloIota StablehloDotGeneral StablehloReduceWindow StablehloSort StablehloWhile StablehloGather
StablehloTranspose Dilate StablehloRngBitGenerator ReduceWindow StableHLOComposite StablehloShiftLeft
StablehloCase
"""
)

# Operators whose option table is not named after them.
SHARED_OPTIONS: dict[str, tuple[str, ...]] = {
    "Pool2D": ("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"),
    "Reducer": ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL"),
    "L2Norm": ("L2_NORMALIZATION",),
    "SequenceRNN": ("UNIDIRECTIONAL_SEQUENCE_RNN",),
    "Random": ("RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "MULTINOMIAL"),
    "Conv3D": ("CONV_3D_TRANSPOSE",),
}

ENUMS: dict[str, tuple[str, ...]] = {
    "TensorType": TENSOR_TYPES,
    "Activation": ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT"),
    "Padding": ("SAME", "VALID"),
    "MirrorPad": ("REFLECT", "SYMMETRIC"),
    "WeightsFormat": ("DEFAULT", "SHUFFLED4x16INT8"),
    "LstmKernel": ("FULL", "BASIC"),
    "Combiner": ("SUM", "MEAN", "SQRTN"),
    "LshProjection": ("UNKNOWN", "SPARSE", "DENSE"),
    "ReduceWindow": ("UNSUPPORTED", "ADD", "MUL", "MINIMUM", "MAXIMUM", "ALL", "ANY"),
    "AttributesFormat": ("FLEXBUFFERS",),
}

# Enumerations are one byte in the file, but for this one.
WIDE_ENUMS: dict[str, str] = {"ReduceWindow": "int32"}

# One paragraph a table: its fields in the order of the schema as ``name:type[=default]``, a default of zero
# left out, "-" for a slot no longer used. A table that is not listed has no fields, or none that are read
# (StableHLO).
OPTION_TABLES = """
Conv2D: padding:Padding stride_w:int32 stride_h:int32 fused_activation_function:Activation
    dilation_w_factor:int32=1 dilation_h_factor:int32=1 quantized_bias_type:TensorType
DepthwiseConv2D: padding:Padding stride_w:int32 stride_h:int32 depth_multiplier:int32
    fused_activation_function:Activation dilation_w_factor:int32=1 dilation_h_factor:int32=1
ConcatEmbeddings: num_channels:int32 num_columns_per_channel:[int32]
    embedding_dim_per_channel:[int32]
LSHProjection: type:LshProjection
Pool2D: padding:Padding stride_w:int32 stride_h:int32 filter_width:int32 filter_height:int32
    fused_activation_function:Activation
SVDF: rank:int32 fused_activation_function:Activation asymmetric_quantize_inputs:bool
RNN: fused_activation_function:Activation asymmetric_quantize_inputs:bool
FullyConnected: fused_activation_function:Activation weights_format:WeightsFormat
    keep_num_dims:bool asymmetric_quantize_inputs:bool quantized_bias_type:TensorType quant_spec:[uint8]
Softmax: beta:float32
Concatenation: axis:int32 fused_activation_function:Activation
Add: fused_activation_function:Activation pot_scale_int16:bool=true
L2Norm: fused_activation_function:Activation
LocalResponseNormalization: radius:int32 bias:float32 alpha:float32 beta:float32
LSTM: fused_activation_function:Activation cell_clip:float32 proj_clip:float32
    kernel_type:LstmKernel asymmetric_quantize_inputs:bool
ResizeBilinear: - - align_corners:bool half_pixel_centers:bool
Call: subgraph:uint32
Reshape: new_shape:[int32]
SkipGram: ngram_size:int32 max_skip_size:int32 include_all_ngrams:bool
SpaceToDepth: block_size:int32
EmbeddingLookupSparse: combiner:Combiner
Mul: fused_activation_function:Activation
Gather: axis:int32 batch_dims:int32
Reducer: keep_dims:bool
Sub: fused_activation_function:Activation pot_scale_int16:bool=true
Div: fused_activation_function:Activation
Squeeze: squeeze_dims:[int32]
SequenceRNN: time_major:bool fused_activation_function:Activation asymmetric_quantize_inputs:bool
StridedSlice: begin_mask:int32 end_mask:int32 ellipsis_mask:int32 new_axis_mask:int32
    shrink_axis_mask:int32 offset:bool
Split: num_splits:int32
Cast: in_data_type:TensorType out_data_type:TensorType
ArgMax: output_type:TensorType
TransposeConv: padding:Padding stride_w:int32 stride_h:int32 fused_activation_function:Activation
    quantized_bias_type:TensorType
SparseToDense: validate_indices:bool
Shape: out_type:TensorType
ArgMin: output_type:TensorType
FakeQuant: min:float32 max:float32 num_bits:int32 narrow_range:bool
Pack: values_count:int32 axis:int32
OneHot: axis:int32
Unpack: num:int32 axis:int32
BidirectionalSequenceLSTM: fused_activation_function:Activation cell_clip:float32 proj_clip:float32
    merge_outputs:bool time_major:bool=true asymmetric_quantize_inputs:bool
BidirectionalSequenceRNN: time_major:bool fused_activation_function:Activation merge_outputs:bool
    asymmetric_quantize_inputs:bool
UnidirectionalSequenceLSTM: fused_activation_function:Activation cell_clip:float32
    proj_clip:float32 time_major:bool asymmetric_quantize_inputs:bool diagonal_recurrent_tensors:bool
ResizeNearestNeighbor: align_corners:bool half_pixel_centers:bool
LeakyRelu: alpha:float32
MirrorPad: mode:MirrorPad
SplitV: num_splits:int32
Unique: idx_out_type:TensorType=int32
ReverseSequence: seq_dim:int32 batch_dim:int32
If: then_subgraph_index:int32 else_subgraph_index:int32
While: cond_subgraph_index:int32 body_subgraph_index:int32
DepthToSpace: block_size:int32
BatchMatMul: adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool
Cumsum: exclusive:bool reverse:bool
CallOnce: init_subgraph_index:int32
Conv3D: padding:Padding stride_d:int32 stride_w:int32 stride_h:int32
    fused_activation_function:Activation dilation_d_factor:int32=1 dilation_w_factor:int32=1
    dilation_h_factor:int32=1
Hashtable: table_id:int32 key_dtype:TensorType value_dtype:TensorType
VarHandle: container:string shared_name:string
Random: seed:int64 seed2:int64
Bucketize: boundaries:[float32]
Gelu: approximate:bool
ReduceWindow: reduce_function:ReduceWindow
StableHLOComposite: name:string decomposition_subgraph_index:int32 composite_attributes:[uint8]
    composite_attributes_format:AttributesFormat version:int32
"""
