// The clusters of a chunk, out of its marks and values, in the order (frame, y, x): counts, a scan, an ordered gather.
// Nothing depends on the order in which blocks run.
#include "layout.cuh"

constexpr int SCAN_THREADS = 1024;
constexpr int GROUP = THREADS;  // words of marks that a block takes

// The sum of `count` over the block's threads before this one, and over all of them in `total`.
template <int N_WARPS>
__device__ unsigned sum_before(unsigned count, unsigned& total)
{
    __shared__ unsigned of_warps[N_WARPS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    unsigned up_to = count;
    for (int distance = 1; distance < WARP; distance *= 2) {
        const unsigned other = __shfl_up_sync(ALL_LANES, up_to, distance);
        if (lane >= distance) up_to += other;
    }
    if (lane == WARP - 1) of_warps[warp] = up_to;
    __syncthreads();
    unsigned before = 0;
    total = 0;
    for (int w = 0; w < N_WARPS; ++w) {
        if (w < warp) before += of_warps[w];
        total += of_warps[w];
    }
    __syncthreads();  // the next call writes to the same place
    return before + up_to - count;
}

// Grid: groups of words, frames of a chunk. counts[frame][group] = centres in the group.
extern "C" __global__ void __launch_bounds__(THREADS)
count_centres(const ParameterBlock* __restrict__ block, const unsigned* __restrict__ marks,
              unsigned* __restrict__ counts, int rows, int cols)
{
    const Image image{rows, cols};
    if (blockIdx.y >= block->n_frames || !block->counted) return;
    const size_t word = (size_t)blockIdx.x * GROUP + threadIdx.x;
    const bool inside = word < image.frame_words();
    unsigned total;
    sum_before<WARPS>(inside ? __popc(marks[blockIdx.y * image.frame_words() + word]) : 0, total);
    if (threadIdx.x == 0) counts[blockIdx.y * gridDim.x + blockIdx.x] = total;
}

// One block. counts[frame][group] becomes the clusters before the group; found[0] = clusters of the chunk, and
// found[1 + frame] = clusters of the frame.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
scan_counts(const ParameterBlock* __restrict__ block, unsigned* __restrict__ counts, unsigned* __restrict__ found,
            int groups)
{
    const unsigned n_frames = block->counted ? block->n_frames : 0;
    const unsigned n = n_frames * groups;
    unsigned so_far = 0;
    for (unsigned first = 0; first < n; first += SCAN_THREADS) {
        const unsigned i = first + threadIdx.x;
        unsigned total;
        const unsigned before = sum_before<SCAN_THREADS / WARP>(i < n ? counts[i] : 0, total);
        if (i < n) counts[i] = so_far + before;
        so_far += total;
    }
    __syncthreads();
    if (threadIdx.x == 0) found[0] = so_far;
    for (unsigned frame = threadIdx.x; frame < n_frames; frame += SCAN_THREADS) {
        const unsigned next = frame + 1 < n_frames ? counts[(frame + 1) * groups] : so_far;
        found[1 + frame] = next - counts[frame * groups];
    }
}

// Grid: as count_centres. Writes each cluster's signal, frame, y and x to its place, if there is room for all of the
// chunk; if not, nothing: the host sees how many there are and comes again with more room.
extern "C" __global__ void __launch_bounds__(THREADS)
gather_clusters(const ParameterBlock* __restrict__ block, const unsigned* __restrict__ marks,
                const float* __restrict__ values, const unsigned* __restrict__ counts,
                const unsigned* __restrict__ found, int rows, int cols)
{
    __shared__ unsigned short places[GROUP * WARP];  // of the centres: word in the group, bit
    const Image image{rows, cols};
    const unsigned frame = blockIdx.y;
    if (frame >= block->n_frames || !block->listed) return;
    const size_t total = found[0];
    if (total > block->capacity) return;
    const size_t first_word = (size_t)blockIdx.x * GROUP;
    const size_t word = first_word + threadIdx.x;
    unsigned bits = word < image.frame_words() ? marks[frame * image.frame_words() + word] : 0;
    unsigned n;
    unsigned place = sum_before<WARPS>(__popc(bits), n);
    for (; bits; bits &= bits - 1) places[place++] = (unsigned short)(threadIdx.x * WARP + __ffs((int)bits) - 1);
    __syncthreads();

    const size_t first = counts[frame * gridDim.x + blockIdx.x];
    float* __restrict__ signal = (float*)block->clusters;
    unsigned* __restrict__ frame_index = (unsigned*)(signal + total * WINDOW_AREA);
    Coordinate* __restrict__ ys = (Coordinate*)(frame_index + total);
    Coordinate* __restrict__ xs = ys + total;
    const int words = image.words();
    for (unsigned i = threadIdx.x; i < n; i += THREADS) {
        const size_t at = first_word + places[i] / WARP;
        frame_index[first + i] = frame;
        ys[first + i] = (Coordinate)(at / words);
        xs[first + i] = (Coordinate)(at % words * WARP + places[i] % WARP);
    }
    const float* __restrict__ of_frame = values + frame * image.pixels();
    for (unsigned i = threadIdx.x; i < n * WINDOW_AREA; i += THREADS) {
        const unsigned cluster = i / WINDOW_AREA, pixel = i % WINDOW_AREA;
        const size_t at = first_word + places[cluster] / WARP;
        const int y = (int)(at / words) + (int)(pixel / WINDOW_COLS) - WINDOW_ROWS / 2;
        const int x = (int)(at % words * WARP + places[cluster] % WARP) + (int)(pixel % WINDOW_COLS) - WINDOW_COLS / 2;
        const bool inside = y >= 0 && y < rows && x >= 0 && x < cols;
        signal[first * WINDOW_AREA + i] = inside ? of_frame[(size_t)y * cols + x] : 0.0f;
    }
}

// Grid: words of an image, a warp each. Adds up in how many frames each pixel was quiet, blind, a centre, in another
// gain.
extern "C" __global__ void __launch_bounds__(THREADS)
count_activity(const ParameterBlock* __restrict__ block, const unsigned* __restrict__ marks, int rows, int cols,
               int chunk_frames)
{
    const Image image{rows, cols};
    if (!block->counted) return;
    const size_t word = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP, words = image.words();
    const size_t y = word / words, x = word % words * WARP + lane;
    if (y >= (size_t)rows || x >= (size_t)cols) return;
    const size_t mark = (size_t)chunk_frames * image.frame_words();
    unsigned quiet = 0, blind = 0, centres = 0, switched = 0;
    for (unsigned frame = 0; frame < block->n_frames; ++frame) {
        const unsigned* at = marks + frame * image.frame_words() + word;
        centres += at[CENTRE * mark] >> lane & 1;
        quiet += at[QUIET * mark] >> lane & 1;
        blind += at[BLIND * mark] >> lane & 1;
        switched += at[SWITCHED * mark] >> lane & 1;
    }
    const size_t pixel = y * cols + x;
    block->updated[pixel] += quiet;
    block->blind[pixel] += blind;
    block->centres[pixel] += centres;
    block->switched[pixel] += switched;
}
