/// z = a * x + y.
__global__ void axpy(float* z, const float* x, const float* y, float a, long long n) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) z[i] = a * x[i] + y[i];
}
