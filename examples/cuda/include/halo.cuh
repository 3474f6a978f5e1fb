// A tile of a matrix in shared memory with a halo around it, filled by all threads of the block.
#pragma once

namespace halo {

/// Index clamped to [0, size): beyond an edge, the edge's own value is repeated.
__device__ __forceinline__ int clamp(int index, int size) { return index < 0 ? 0 : (index < size ? index : size - 1); }

/// WIDTH x HEIGHT elements plus RADIUS elements on each side. Declare one in __shared__ memory.
template <typename T, int WIDTH, int HEIGHT, int RADIUS>
struct Tile {
    static constexpr int kPitch = WIDTH + 2 * RADIUS;
    static constexpr int kRows = HEIGHT + 2 * RADIUS;
    T cells[kRows][kPitch];

    /// Load the tile whose inner corner is (row, column) of a row-major matrix. Ends with the block's threads in step.
    __device__ void load(const T* __restrict__ matrix, int rows, int columns, int row, int column) {
        const int threads = blockDim.x * blockDim.y;
        for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < kRows * kPitch; i += threads) {
            const int r = clamp(row + i / kPitch - RADIUS, rows);
            const int c = clamp(column + i % kPitch - RADIUS, columns);
            cells[i / kPitch][i % kPitch] = matrix[static_cast<long long>(r) * columns + c];
        }
        __syncthreads();
    }

    /// The element at (row, column) of the inner tile; down to -RADIUS and up to RADIUS beyond it are there too.
    __device__ __forceinline__ T at(int row, int column) const { return cells[row + RADIUS][column + RADIUS]; }
};

}  // namespace halo
