// y = act(x + bias) over the columns of a matrix.
#include "activations.cuh"

/// The activation of each row with a bias added; SMOOTH chooses silu, else gelu.
template <bool SMOOTH>
__global__ void bias_act(float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ bias, int rows, int columns) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    const float b = bias[column];
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        const long long i = static_cast<long long>(row) * columns + column;
        y[i] = SMOOTH ? nn::silu(x[i] + b) : nn::gelu(x[i] + b);
    }
}
