// What a run counts of its clusters instead of keeping them: a spectrum of the windows' sums, and a histogram of eta;
// finder/products.py says what they are, and finder/product_kernels.py is the same on the CPU. Whole numbers throughout,
// so that it does not matter in which order they are added up: that is why these alone may be added by atomics. The hit
// map is the count of centres, which collect.cu keeps anyway.
#include "layout.cuh"

constexpr float INT32_LIMIT = 2147483648.0f;

struct Window {
    const float* values;  // of the frame, above the pedestal; 0 where a pixel is absent
    int rows, cols, y, x;
    unsigned* too_large;

    // The value this far from the centre in whole ADU, rounded half away from zero; 0 outside the image.
    __device__ long long at(int down, int right) const
    {
        const int row = y + down, column = x + right;
        if (row < 0 || row >= rows || column < 0 || column >= cols) return 0;
        const float value = values[(size_t)row * cols + column];
        if (!(value >= -INT32_LIMIT && value < INT32_LIMIT)) {
            atomicAdd(too_large, 1u);
            return 0;
        }
        const int whole = (int)value;
        const float fraction = value - (float)whole;  // exact, as value + 0.5 would not be
        return (long long)whole + (fraction >= 0.5f) - (fraction <= -0.5f);
    }
};

// The whole window is looked at even if nobody wants its sum: a value that is too large is refused whatever is counted.
__device__ void count_sum(const ParameterBlock& block, const Window& window)
{
    long long sum = 0;
#pragma unroll 1
    for (int down = -(WINDOW_ROWS / 2); down <= WINDOW_ROWS / 2; ++down) {
#pragma unroll
        for (int right = -(WINDOW_COLS / 2); right <= WINDOW_COLS / 2; ++right) sum += window.at(down, right);
    }
    if (!block.spectrum) return;
    const long long place = sum - block.spectrum_low, n = block.spectrum_bins;
    const long long bin = place < 0 ? n : place >= n * block.spectrum_width ? n + 1 : place / block.spectrum_width;
    atomicAdd(block.spectrum + bin, 1ull);
}

// floor(bins * (part / total + 1/4) / (3/2)) within the bins, exact.
__device__ unsigned eta_place(long long part, long long total, long long bins)
{
    long long above = bins * (4 * part + total), below = 6 * total;
    if (below < 0) {
        above = -above;
        below = -below;
    }
    if (above < 0) return 0;
    const long long place = above / below;
    return (unsigned)(place < bins ? place : bins - 1);
}

__device__ void count_eta(const ParameterBlock& block, const Window& window)
{
    const long long centre = window.at(0, 0), low_y = window.at(-1, 0), high_y = window.at(1, 0);
    const long long low_x = window.at(0, -1), high_x = window.at(0, 1);
    // The centre is in all four squares.
    const long long squares[4] = {low_y + low_x + window.at(-1, -1), low_y + high_x + window.at(-1, 1),
                                  high_y + low_x + window.at(1, -1), high_y + high_x + window.at(1, 1)};
    long long largest = squares[0];
    bool is_high_y = false, is_high_x = false;
#pragma unroll
    for (int i = 1; i < 4; ++i) {
        if (squares[i] > largest) {
            largest = squares[i];
            is_high_y = i >= 2;
            is_high_x = i % 2 == 1;
        }
    }
    const long long right = is_high_x ? high_x : centre, across = centre + (is_high_x ? high_x : low_x);
    const long long upper = is_high_y ? high_y : centre, down = centre + (is_high_y ? high_y : low_y);
    const long long bins = block.eta_bins;
    const bool is_none = across == 0 || down == 0;
    const long long bin = is_none ? bins * bins : eta_place(upper, down, bins) * bins + eta_place(right, across, bins);
    atomicAdd(block.eta + bin, 1ull);
}

// Grid: groups of words, frames of a chunk; a thread takes the centres of a word.
extern "C" __global__ void __launch_bounds__(THREADS)
count_products(const ParameterBlock* __restrict__ block, const unsigned* __restrict__ marks,
               const float* __restrict__ values, int rows, int cols)
{
    const Image image{rows, cols};
    const unsigned frame = blockIdx.y;
    if (frame >= block->n_frames || !block->counted) return;
    const size_t word = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (word >= image.frame_words()) return;
    const int words = image.words(), y = (int)(word / words), left = (int)(word % words) * WARP;
    for (unsigned bits = marks[frame * image.frame_words() + word]; bits; bits &= bits - 1) {
        const int x = left + __ffs((int)bits) - 1;
        const Window window{values + frame * image.pixels(), rows, cols, y, x, block->too_large};
        count_sum(*block, window);
        if (block->eta) count_eta(*block, window);
    }
}
