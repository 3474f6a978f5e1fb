"""What the kernels of this sample compute."""

import numpy as np


def softmax(x):
    weight = np.exp((x - x.max(1, keepdims=True)).astype("f8"))
    return weight / weight.sum(1, keepdims=True)
