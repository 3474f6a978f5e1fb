// One explicit step of the heat equation: a five-point stencil on a shared-memory tile with a halo.
#include "halo.cuh"

constexpr int kWidth = 32;       // columns of a tile: one warp reads one row
constexpr int kHeight = 32;      // rows of a tile
constexpr int kThreadRows = 8;   // rows of threads in a block; each thread makes kHeight / kThreadRows elements

/// y = x + alpha * (left + right + above + below - 4 x); beyond the edges x goes on as it is at the edge.
extern "C" __global__ void __launch_bounds__(kWidth * kThreadRows)
stencil(float* __restrict__ y, const float* __restrict__ x, int rows, int columns, float alpha) {
    __shared__ halo::Tile<float, kWidth, kHeight, 1> tile;
    const int row = blockIdx.y * kHeight;
    const int column = blockIdx.x * kWidth;
    tile.load(x, rows, columns, row, column);

    const int c = threadIdx.x;
    for (int r = threadIdx.y; r < kHeight; r += kThreadRows) {
        if (row + r < rows && column + c < columns) {
            const float centre = tile.at(r, c);
            const float around = tile.at(r, c - 1) + tile.at(r, c + 1) + tile.at(r - 1, c) + tile.at(r + 1, c);
            y[static_cast<long long>(row + r) * columns + column + c] = centre + alpha * (around - 4.0f * centre);
        }
    }
}
