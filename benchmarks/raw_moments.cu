// The finder's decisions in other arithmetic, to see what that costs and what it finds: moments of the pixels as they are
// (raw) or around X0 (centred), in float64 or float32. Windows of 3x3, one thread a pixel, one launch a frame, the state
// read from one buffer and written to the other: as plain as such a kernel can be, the same for all.
#ifndef REAL_BYTES
#define REAL_BYTES 4
#endif
#if REAL_BYTES == 8
typedef double Real;
#else
typedef float Real;
#endif

struct Frame {
    const unsigned short* pixels;
    const int* x0;  // all 0 where moments are raw
    const Real* s1;
    int rows, cols;
    Real n;

    __device__ Real y(int i) const { return (Real)((int)pixels[i] - x0[i]); }
    __device__ Real value(int row, int column) const
    {
        if (row < 0 || row >= rows || column < 0 || column >= cols) return 0;
        const int i = row * cols + column;
        return y(i) - s1[i] / n;
    }
};

// Grid: enough threads along x for all pixels. clusters[pixel] = how often it was a cluster's centre.
extern "C" __global__ void __launch_bounds__(256)
find_plainly(const unsigned short* __restrict__ pixels, const int* __restrict__ x0, const Real* __restrict__ s1,
             const Real* __restrict__ s2, Real* __restrict__ s1_after, Real* __restrict__ s2_after,
             unsigned* __restrict__ clusters, int rows, int cols, float n_samples, float squared_n_sigma)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= rows * cols) return;
    const Frame frame{pixels, x0, s1, rows, cols, (Real)n_samples};
    const int row = i / cols, column = i % cols;
    const Real y = frame.y(i), mean = s1[i] / frame.n, second = s2[i] / frame.n, v = y - mean;
    Real limit = (Real)squared_n_sigma * (second - mean * mean);
    if (!(limit > 0)) limit = 0;
    Real most = 0, total = frame.value(row - 1, column - 1);
    for (int k = 0; k < 9; ++k) {
        const Real value = frame.value(row + k / 3 - 1, column + k % 3 - 1);
        most = value > most ? value : most;
        if (k > 0) total = total + value;
    }
    const bool low = v < 0 && v * v > limit;
    const bool photon = (most > 0 && most * most > limit) || (total > 0 && total * total > 9 * limit);
    if (photon && !low && v == most) clusters[i] += 1;
    const bool quiet = !photon && !low;
    s1_after[i] = s1[i] + (quiet ? y - mean : (Real)0);
    s2_after[i] = s2[i] + (quiet ? y * y - second : (Real)0);
}
