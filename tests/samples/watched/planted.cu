// One defect in each kernel, on the line that says so.

extern "C" __global__ void fine(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}

extern "C" __global__ void beyond(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n + 4) {
        float value = i < n ? x[i] : 0.0f;
        y[i] = value;  // defect: four elements behind the end
    }
}

extern "C" __global__ void unset(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[i];  // defect: nothing has written y
}

extern "C" __global__ void turned(float* y) {
    __shared__ float tile[128];
    tile[threadIdx.x] = y[blockIdx.x * 128 + threadIdx.x];
    y[blockIdx.x * 128 + threadIdx.x] = tile[127 - threadIdx.x];  // defect: no barrier in between
}

extern "C" __global__ void parted(float* y) {
    __shared__ float tile[128];
    tile[threadIdx.x] = y[blockIdx.x * 128 + threadIdx.x];
    if (threadIdx.x % 2 == 0) {
        __syncthreads();
        y[blockIdx.x * 128 + threadIdx.x] = tile[127 - threadIdx.x];
    } else {
        tile[threadIdx.x] += 1.0f;
        __syncthreads();  // defect: the other half of the warp waits elsewhere
        y[blockIdx.x * 128 + threadIdx.x] = tile[126 - threadIdx.x];
    }
}

extern "C" __global__ void skewed(float* y) {
    reinterpret_cast<float4*>(y + 1)[threadIdx.x] = make_float4(1, 2, 3, 4);  // defect: 16 bytes at an address that 4 divides
}

extern "C" __global__ void narrow(float* y, int far) {
    __shared__ float tile[128];
    tile[threadIdx.x + far] = y[threadIdx.x];  // defect: there is no such shared memory
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];
}
