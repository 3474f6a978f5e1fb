// Device functions alone: compiled for each target, and inlined into the kernels that are linked with them.
#include "activations.cuh"

namespace nn {

/// x times the normal distribution's share below x.
__device__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }

/// x times the logistic function of x.
__device__ float silu(float x) { return x / (1.0f + expf(-x)); }

}  // namespace nn
