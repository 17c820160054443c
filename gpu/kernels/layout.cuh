// What the kernels share: compile-time choices, a tile's size, and the block of parameters that the host fills in.
#pragma once

#ifndef WINDOW_ROWS
#define WINDOW_ROWS 3
#endif
#ifndef WINDOW_COLS
#define WINDOW_COLS 3
#endif
// Frames that one launch of `search` takes a tile through.
#ifndef FRAMES_A_LAUNCH
#define FRAMES_A_LAUNCH 1
#endif
// The noise is followed (1), or stays as it was trained (0).
#ifndef RUNNING
#define RUNNING 1
#endif
// 1 uint8, 2 uint16, 4 uint32, -2 int16, -4 int32: as the detector wrote them; 0: float32, X - X0 done, NaN if absent.
#ifndef FRAME_TYPE
#define FRAME_TYPE 2
#endif
// X - X0 does not fit 32 bits.
#ifndef WIDE
#define WIDE 0
#endif
// Bytes of a cluster's y and x.
#ifndef COORDINATE_BYTES
#define COORDINATE_BYTES 2
#endif

#if FRAME_TYPE == 0
typedef float Frame;
#elif FRAME_TYPE == 1
typedef unsigned char Frame;
#elif FRAME_TYPE == 2
typedef unsigned short Frame;
#elif FRAME_TYPE == 4
typedef unsigned int Frame;
#elif FRAME_TYPE == -2
typedef short Frame;
#elif FRAME_TYPE == -4
typedef int Frame;
#endif

#if WIDE
typedef long long Difference;
#else
typedef int Difference;
#endif

#if COORDINATE_BYTES == 2
typedef unsigned short Coordinate;
#else
typedef unsigned int Coordinate;
#endif

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
constexpr int WINDOW_AREA = WINDOW_ROWS * WINDOW_COLS;

// One bit a pixel and frame for each of these, 32 neighbours of a row in a word: [mark][frame][y][word].
constexpr int CENTRE = 0, QUIET = 1, BLIND = 2, SWITCHED = 3;

// What varies from chunk to chunk; gpu/parameter_block.py has the same fields in the same order.
struct ParameterBlock {
    unsigned n_frames;   // of this chunk, at most what its buffers hold
    unsigned counted;    // whether clusters and counts are wanted; if not, frames only move the pedestal
    unsigned tracked;    // whether frames move the pedestal
    unsigned capacity;   // clusters that `clusters` has room for
    float inverse_n_samples, squared_n_sigma;
    int gain_shift;      // a pixel whose value has bits from here up is in another gain; 0: values have no such bits
    unsigned listed;     // whether clusters are gathered; if not, they are only counted
    float *s1[2], *s2[2];                            // the pedestal's state before and after a launch, in turns
    const Difference* x0;
    const float* trained_variance;
    unsigned *updated, *blind, *centres, *switched;  // counts of frames, a pixel
    unsigned char* clusters;                         // signal, frame, y, x: each for all clusters of the chunk
    unsigned long long *spectrum, *eta;              // clusters a bin, or null: see products.cu
    unsigned* too_large;                             // values that fit no 32 bits
    long long spectrum_low, spectrum_width;
    unsigned spectrum_bins, eta_bins;
};

static_assert(sizeof(ParameterBlock) == 168, "gpu/parameter_block.py has another layout");

struct Image {
    int rows, cols;
    __device__ int words() const { return (cols + WARP - 1) / WARP; }                  // of a row
    __device__ size_t pixels() const { return (size_t)rows * cols; }
    __device__ size_t frame_words() const { return (size_t)rows * words(); }
};
