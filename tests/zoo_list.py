"""What is special about files of the model zoo; whatever is not listed must be exact."""

from __future__ import annotations

import os
from collections.abc import Sequence

from qimport.numerics import X86_NUMERICS, Numerics

REFUSED: dict[str, str] = {
    "BADINPUT_litert__empty_model": "has no outputs",
    "BADINPUT_litert__string_input_model": "the element type string is not supported",
}
"""Files that the interpreter runs and qimport refuses, and what the refusal says."""

UNTRUSTED = {
    "pinto__ssdlite_mobilenet_v2_voc_300_integer_quant_with_postprocess": (
        "nothing is detected, and the interpreter leaves the results as its memory was"
    ),
    "tflm__keyword_scrambled_8bit": "the interpreter writes beyond its 8-bit SVDF state",
}
"""Files whose outputs in the interpreter cannot be trusted, and why."""

LARGE = frozenset(
    {
        "ambiq__arrhythmia_model_power_model_data",
        "armex__yolo-fastest_192_face_v4",
        "bodypix__bodypix_mobilenet_v1_075_1280_720_16_per_tensor_quant",
        "bodypix__bodypix_mobilenet_v1_075_480_352_16_quant_decoder",
        "bodypix__bodypix_mobilenet_v1_075_720_1280_16_quant",
        "cfu__hps_model_2021_09_20_tiled",
        "cfu__hps_model_2022_01_05_74ops",
        "cfu__hps_model_2022_01_05_89ops",
        "cfu__model_mobilenetv2_160_035",
        "cfu__presence_0_320_240_1_20220415_172145_201k_26k_96ops",
        "cfu__shared_20220623_1032_tiled",
        "coral__deeplab_mobilenet_edgetpu_slim_cityscapes_quant",
        "coral__deeplabv3_mnv2_dm05_pascal_quant",
        "coral__mobilenet_v1_0.5_160_quant",
        "coral__mobilenet_v2_1.0_224_quant",
        "coral__movenet_single_pose_lightning_ptq",
        "coral__posenet_mobilenet_v1_075_353_481_16_quant_decoder",
        "coral__tf2_mobilenet_v2_1.0_224_ptq",
        "coral__traffic_model",
        "edgefirst__yolov8n-seg-logical-int8",
        "efficientnet_b0_int8",
        "flutter__custom_ssd_mobilenet_v2_fpn_lite_320x320",
        "gotflite__style_predict_quantized_256",
        "gotflite__style_transfer_quantized_dynamic",
        "greenwaves__visual_wake_quant",
        "inception_v3_int8",
        "litert__torchaudio_conformer",
        "mlkit__automl_model",
        "mobilenet_v1_1.0_224_int8",
        "mobilenet_v2_1.0_224_int8",
        "mobilenet_v3_small_int8",
        "nxp__dperson_shufflenetv2",
        "pinto__ssdlite_mobilenet_v2_voc_300_integer_quant_with_postprocess",
        "resnet50_int8",
        "tfexamples__mobilenet_v2_035_96_embedder_with_metadata",
        "tflm__mobilenet_v2_quantized_1x3x224x224",
        "tfsupport__automl_labeler_model",
        "tfsupport__coco_ssd_mobilenet_v1_1.0_quant_2018_06_29",
        "tfsupport__coco_ssd_mobilenet_v1_1.0_quant_2018_06_29_no_metadata",
    }
)
"""Files that take seconds to compile, or to run in the interpreter's reference kernels."""


def modes_of(name: str) -> Sequence[Numerics]:
    """The modes in which a file is compared: of the large ones one, unless QIMPORT_ZOO_MODES=all."""
    if name not in LARGE or os.environ.get("QIMPORT_ZOO_MODES") == "all":
        return X86_NUMERICS
    return (X86_NUMERICS[sorted(LARGE).index(name) % len(X86_NUMERICS)],)
