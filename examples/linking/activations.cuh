// What a kernel may apply to an element: defined in activations.cu, which is linked.
#pragma once

namespace nn {
__device__ float gelu(float x);
__device__ float silu(float x);
}  // namespace nn
