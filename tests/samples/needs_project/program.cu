// A program as it is found in a book: host headers, a kernel, and its own main().
#include <cstdio>
#include <type_traits>
#include <vector>

#include <cuda_runtime.h>

template <bool Scale>
__global__ void axpy(float* y, const float* x, float a, int n, std::bool_constant<Scale>) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += Scale ? a * x[i] : x[i];
}

__global__ void twice(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}

int main() {
    std::vector<float> host(1024, 1.0f);
    float *x, *y;
    cudaMalloc(&x, 4096);
    cudaMalloc(&y, 4096);
    twice<<<4, 256>>>(y, x, 1024);
    cudaMemcpy(host.data(), y, 4096, cudaMemcpyDeviceToHost);
    std::printf("%f\n", host[0]);
}
