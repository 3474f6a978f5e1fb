// A transpose through a tile in shared memory, one column wider than it has to be, so that no two threads of a warp meet in a bank.
#include <cuda_fp16.h>

template <typename T, int TILE, int ROWS>
__global__ void transpose(T* __restrict__ y, const T* __restrict__ x, int rows, int columns) {
    __shared__ T tile[TILE][TILE + 1];
    int column = blockIdx.x * TILE + threadIdx.x;
    int row = blockIdx.y * TILE + threadIdx.y;
#pragma unroll
    for (int j = 0; j < TILE; j += ROWS) {
        if (row + j < rows && column < columns) tile[threadIdx.y + j][threadIdx.x] = x[static_cast<long long>(row + j) * columns + column];
    }
    __syncthreads();
    column = blockIdx.y * TILE + threadIdx.x;
    row = blockIdx.x * TILE + threadIdx.y;
#pragma unroll
    for (int j = 0; j < TILE; j += ROWS) {
        if (row + j < columns && column < rows) y[static_cast<long long>(row + j) * rows + column] = tile[threadIdx.x][threadIdx.y + j];
    }
}
