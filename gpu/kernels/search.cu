// A few frames in sequence, one tile of the image a block: the decision of every pixel, and the pedestal that follows.
//
// A block holds the state of its tile and of a halo around it. A frame's decisions need the values half a window
// around, and values need the state that the frame before has left: so with each frame the part of the halo that is
// still right shrinks by half a window, until after FRAMES_A_LAUNCH frames the tile alone is left. Neighbours compute
// each other's halo again and never wait for one another. The state is read from one buffer and written to the other:
// no block reads what another has moved already.
//
// The arithmetic is the design's, operation by operation: compile without fused multiply-adds, and keep denormals.
#include "layout.cuh"

constexpr int TILE_ROWS = 32, TILE_COLS = WARP;
constexpr int RADIUS_Y = WINDOW_ROWS / 2, RADIUS_X = WINDOW_COLS / 2;
constexpr int HALO_Y = FRAMES_A_LAUNCH * RADIUS_Y, HALO_X = FRAMES_A_LAUNCH * RADIUS_X;
constexpr int REGION_ROWS = TILE_ROWS + 2 * HALO_Y, REGION_COLS = TILE_COLS + 2 * HALO_X;
constexpr int REGION = REGION_ROWS * REGION_COLS;
// A thread walks down a column of the tile, so that each row of a window is summed once for all windows that it is in.
constexpr int MOST_ROWS = REGION_ROWS - 2 * RADIUS_Y;
constexpr int STRIP = (MOST_ROWS + WARPS - 1) / WARPS;
constexpr int HALO_COLS = 2 * (HALO_X - RADIUS_X);  // the tile's neighbours that are decided upon, both sides
constexpr int HALO_STRIP = (MOST_ROWS * HALO_COLS + THREADS - 1) / THREADS;

struct Region {
    float *s1, *s2;         // the state; with trained noise s2 is the squared threshold
    float *y, *value;       // X - X0; above the pedestal, 0 where there is no pixel
    unsigned char* there;   // bit 0: there is a pixel; bit 1: it is in another gain
};

struct Rules {
    float inverse_n_samples, squared_n_sigma;
    bool tracked;
};

struct Decision {
    bool centre, quiet, blind;
};

// Decides upon a pixel whose window has this maximum (at least 0) and this sum, and moves its pedestal if it is quiet.
__device__ __forceinline__ Decision decide(const Region& region, int i, float maximum, float sum, const Rules& rules)
{
    const float value = region.value[i];
#if RUNNING
    const float r = region.s1[i] * rules.inverse_n_samples;
    const float m = region.s2[i] * rules.inverse_n_samples;
    float t = rules.squared_n_sigma * (m - r * r);
    if (!(t > 0.0f)) t = 0.0f;
#else
    const float t = region.s2[i];
#endif
    const bool is_there = region.there[i] & 1;
    const bool blind = is_there && value < 0.0f && value * value > t;
    const bool above = (maximum > 0.0f && maximum * maximum > t) || (sum > 0.0f && sum * sum > (float)WINDOW_AREA * t);
    const bool quiet = is_there && !blind && !above;
    if (quiet && rules.tracked) {
        region.s1[i] = region.s1[i] + value;
#if RUNNING
        const float y = region.y[i];
        region.s2[i] = region.s2[i] + (y * y - m);
#endif
    }
    return {is_there && !blind && above && value == maximum, quiet, blind};
}

// Calls `pixel(row, maximum, sum)` for LENGTH pixels of a column from `first` on, as far as `end`.
template <int LENGTH, class Pixel>
__device__ __forceinline__ void down_a_column(const Region& region, int column, int first, int end, Pixel pixel)
{
    float sums[WINDOW_ROWS], maxima[WINDOW_ROWS];  // of the window's rows; the oldest is replaced
#pragma unroll
    for (int step = 0; step < LENGTH + 2 * RADIUS_Y; ++step) {
        const int row = first + step - RADIUS_Y;
        if (row < end + RADIUS_Y) {
            const float* values = region.value + row * REGION_COLS + column - RADIUS_X;
            float sum = 0.0f, maximum = 0.0f;
#pragma unroll
            for (int x = 0; x < WINDOW_COLS; ++x) {
                sum = sum + values[x];
                maximum = values[x] > maximum ? values[x] : maximum;
            }
            sums[step % WINDOW_ROWS] = sum;
            maxima[step % WINDOW_ROWS] = maximum;
        }
        if (step >= 2 * RADIUS_Y && row - RADIUS_Y < end) {
            float sum = 0.0f, maximum = 0.0f;
#pragma unroll
            for (int y = 1; y <= WINDOW_ROWS; ++y) {  // the oldest, which is the top, first
                sum = sum + sums[(step + y) % WINDOW_ROWS];
                const float other = maxima[(step + y) % WINDOW_ROWS];
                maximum = other > maximum ? other : maximum;
            }
            pixel(row - RADIUS_Y, maximum, sum);
        }
    }
}

// Grid: tiles along x and y. `launch` counts from 0 in a chunk, whose frames are this launch's from `launch` *
// FRAMES_A_LAUNCH on. A launch that finds no frames left hands the state on. Three blocks on a multiprocessor allow 80
// registers a thread: without a number some compilers hold large windows to 48 and spill.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
search(const ParameterBlock* __restrict__ block, const Frame* __restrict__ frames,
       const unsigned char* __restrict__ present, float* __restrict__ values, unsigned* __restrict__ marks,
       int rows, int cols, int chunk_frames, int launch)
{
    __shared__ float s1[REGION], s2[REGION], value[REGION];
#if RUNNING
    __shared__ float y[REGION];
#else
    float* const y = nullptr;
#endif
    __shared__ unsigned char there[REGION];
    const Image image{rows, cols};
    const Region region{s1, s2, y, value, there};
    const Rules rules{block->inverse_n_samples, block->squared_n_sigma, block->tracked != 0};
    const int thread = threadIdx.x, lane = thread % WARP, warp = thread / WARP;
    const int top = (int)blockIdx.y * TILE_ROWS - HALO_Y, left = (int)blockIdx.x * TILE_COLS - HALO_X;
    const int first_frame = launch * FRAMES_A_LAUNCH;
    const int left_over = (int)block->n_frames - first_frame;
    const int n_frames = left_over < FRAMES_A_LAUNCH ? left_over : FRAMES_A_LAUNCH;
    if (n_frames <= 0 && !rules.tracked) return;
    const bool counted = block->counted != 0;
    const int gain_shift = block->gain_shift;
    const int before = rules.tracked ? launch & 1 : 0;
    const float* __restrict__ s1_before = block->s1[before];
#if RUNNING
    const float* __restrict__ s2_before = block->s2[before];
#else
    const float* __restrict__ variance = block->trained_variance;
#endif
    const Difference* __restrict__ x0 = block->x0;

    for (int i = thread; i < REGION; i += THREADS) {
        const int gy = top + i / REGION_COLS, gx = left + i % REGION_COLS;
        const bool inside = gy >= 0 && gy < rows && gx >= 0 && gx < cols;
        const size_t pixel = inside ? (size_t)gy * cols + gx : 0;
        s1[i] = inside ? s1_before[pixel] : 0.0f;
#if RUNNING
        s2[i] = inside ? s2_before[pixel] : 0.0f;
#else
        s2[i] = inside ? rules.squared_n_sigma * variance[pixel] : 0.0f;
#endif
    }
    // No barrier: until the next one a thread touches only the pixels that it has loaded itself.

    for (int f = 0; f < n_frames; ++f) {
        const size_t frame = (size_t)first_frame + f;
        const Frame* __restrict__ pixels = frames + frame * image.pixels();
        for (int i = thread; i < REGION; i += THREADS) {
            const int row = i / REGION_COLS, column = i % REGION_COLS;
            const bool needed = row >= f * RADIUS_Y && row < REGION_ROWS - f * RADIUS_Y && column >= f * RADIUS_X &&
                                column < REGION_COLS - f * RADIUS_X;
            const int gy = top + row, gx = left + column;
            const size_t pixel = (size_t)gy * cols + gx;
            float difference = 0.0f, above = 0.0f;
            unsigned char state = 0;
            if (needed && gy >= 0 && gy < rows && gx >= 0 && gx < cols && present[pixel]) {
                const Frame x = pixels[pixel];
#if FRAME_TYPE == 0
                state = x == x ? 1 : 2;
                difference = x;
#else
                state = gain_shift && (x >> gain_shift) != 0 ? 2 : 1;
                difference = (float)((Difference)x - x0[pixel]);
#endif
                if (state == 1) above = difference - s1[i] * rules.inverse_n_samples;
            }
            value[i] = above;
            there[i] = state;
#if RUNNING
            y[i] = difference;
#endif
        }
        __syncthreads();

        const int first = (f + 1) * RADIUS_Y, end = REGION_ROWS - first;
        const int strip = first + warp * STRIP;
        down_a_column<STRIP>(region, HALO_X + lane, strip, end, [&](int row, float maximum, float sum) {
            const int i = row * REGION_COLS + HALO_X + lane;
            const Decision decision = decide(region, i, maximum, sum, rules);
            const int gy = top + row, gx = left + HALO_X + lane;
            if (!counted || row < HALO_Y || row >= HALO_Y + TILE_ROWS || gy >= rows) return;
            if (gx < cols) values[frame * image.pixels() + (size_t)gy * cols + gx] = value[i];
            const unsigned centre = __ballot_sync(ALL_LANES, decision.centre);
            const unsigned quiet = __ballot_sync(ALL_LANES, decision.quiet);
            const unsigned blind = __ballot_sync(ALL_LANES, decision.blind);
            const unsigned switched = __ballot_sync(ALL_LANES, (there[i] & 2) != 0);
            if (lane == 0) {
                const size_t mark = (size_t)chunk_frames * image.frame_words();
                unsigned* word = marks + frame * image.frame_words() + (size_t)gy * image.words() + blockIdx.x;
                word[CENTRE * mark] = centre;
                word[QUIET * mark] = quiet;
                word[BLIND * mark] = blind;
                word[SWITCHED * mark] = switched;
            }
        });
#if FRAMES_A_LAUNCH > 1
        constexpr int STRIPS = (MOST_ROWS + HALO_STRIP - 1) / HALO_STRIP;
        for (int item = thread; item < HALO_COLS * STRIPS; item += THREADS) {
            const int nth = item % HALO_COLS;
            const int column = nth < HALO_COLS / 2 ? RADIUS_X + nth : TILE_COLS + RADIUS_X + nth;
            if (column < (f + 1) * RADIUS_X || column >= REGION_COLS - (f + 1) * RADIUS_X) continue;
            const int from = first + item / HALO_COLS * HALO_STRIP;
            down_a_column<HALO_STRIP>(region, column, from, end, [&](int row, float maximum, float sum) {
                decide(region, row * REGION_COLS + column, maximum, sum, rules);
            });
        }
#endif
        __syncthreads();
    }

    if (!rules.tracked) return;
    float* __restrict__ s1_after = block->s1[1 - before];
#if RUNNING
    float* __restrict__ s2_after = block->s2[1 - before];
#endif
    for (int i = thread; i < REGION; i += THREADS) {
        const int row = i / REGION_COLS, column = i % REGION_COLS, gy = top + row, gx = left + column;
        if (row < HALO_Y || row >= HALO_Y + TILE_ROWS || column < HALO_X || column >= HALO_X + TILE_COLS) continue;
        if (gy >= rows || gx >= cols) continue;
        s1_after[(size_t)gy * cols + gx] = s1[i];
#if RUNNING
        s2_after[(size_t)gy * cols + gx] = s2[i];
#endif
    }
}
