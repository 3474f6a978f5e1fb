// CUDA Tile C++: a block is one thread of control over whole tiles, and the compiler spreads them over the GPU's threads.
#include <cuda_fp16.h>
#include <cuda_tile.h>

namespace ct = ::cuda::tiles;

/// y = scale * x + y over vectors of any length: the last tile is masked.
template <typename T, int BLOCK>
__tile_global__ void axpy(T* __restrict__ y, const T* __restrict__ x, float scale, int n) {
    ct::partition_view from{ct::tensor_span{x, ct::extents{n}}, ct::shape<BLOCK>{}};
    ct::partition_view into{ct::tensor_span{y, ct::extents{n}}, ct::shape<BLOCK>{}};
    const auto i = ct::bid().x;
    into.store_masked(from.load_masked(i) * static_cast<T>(scale) + into.load_masked(i), i);
}

/// Each row of y is the softmax of that of x; rows have at most COLS elements.
template <int COLS>
__tile_global__ void softmax(float* __restrict__ y, const float* __restrict__ x, int rows, int columns) {
    ct::partition_view from{ct::tensor_span{x, ct::extents{rows, columns}}, ct::shape<1, COLS>{}};
    ct::partition_view into{ct::tensor_span{y, ct::extents{rows, columns}}, ct::shape<1, COLS>{}};
    const auto row = ct::bid().x;
    const auto logits = from.load_masked(ct::view_padding_negative_inf_t{}, row, 0);
    const auto powers = ct::exp(logits - ct::reduce_max(logits, ct::integral_constant<1>{}));
    into.store_masked(powers / ct::sum(powers, ct::integral_constant<1>{}), row, 0);
}
