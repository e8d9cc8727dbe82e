"""The frontend: from the bytes of a .tflite file to the qnn graph."""
