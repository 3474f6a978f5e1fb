// Products of matrices: tiles in shared memory, tiles that are copied in the background, and tensor cores through fragments.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

/// c = a b, by square tiles; extents need not be multiples of them.
template <int TILE>
__global__ void __launch_bounds__(TILE* TILE) product(float* __restrict__ c, const float* __restrict__ a, const float* __restrict__ b, int m, int n, int k) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < k; start += TILE) {
        const int across = start + threadIdx.x, down = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && across < k ? a[row * k + across] : 0.0f;
        right[threadIdx.y][threadIdx.x] = down < k && column < n ? b[down * n + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

/// The same with the next tiles on their way while these are multiplied; extents are multiples of 16.
extern "C" __global__ void product_pipelined(float* __restrict__ c, const float* __restrict__ a, const float* __restrict__ b, int n, int k) {
    constexpr int TILE = 16;
    __shared__ float left[2][TILE][TILE], right[2][TILE][TILE];
    const int i = threadIdx.y, j = threadIdx.x, row = blockIdx.y * TILE + i, column = blockIdx.x * TILE + j;
    const auto fetch = [&](int stage, int start) {
        __pipeline_memcpy_async(&left[stage][i][j], &a[row * k + start + j], sizeof(float));
        __pipeline_memcpy_async(&right[stage][i][j], &b[(start + i) * n + column], sizeof(float));
        __pipeline_commit();
    };
    fetch(0, 0);
    float sum = 0.0f;
    for (int start = 0, stage = 0; start < k; start += TILE, stage ^= 1) {
        if (start + TILE < k) {
            fetch(stage ^ 1, start + TILE);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        for (int s = 0; s < TILE; ++s) sum += left[stage][i][s] * right[stage][s][j];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

/// Tensor cores: a warp makes 16 x 16 of c; extents are multiples of 16.
extern "C" __global__ void product_fragments(float* __restrict__ c, const __half* __restrict__ a, const __half* __restrict__ b, int n, int k) {
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    const int row = 16 * blockIdx.y, column = 16 * blockIdx.x;
    for (int start = 0; start < k; start += 16) {
        wmma::load_matrix_sync(left, a + row * k + start, k);
        wmma::load_matrix_sync(right, b + start * n + column, n);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}
