"""The Open Inference Protocol (V2) of KServe and Triton: the extra ``open-inference`` of the service."""
