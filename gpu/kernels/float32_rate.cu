// Nothing but arithmetic: chains of multiplications and additions, not fused, as the finder does them. What they come to
// is written only so that the compiler keeps them.
#ifndef CHAINS
#define CHAINS 8
#endif

extern "C" __global__ __launch_bounds__(256) void float32_rate(float* results, int steps)
{
    float values[CHAINS];
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) values[chain] = (float)(chain + threadIdx.x);
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int chain = 0; chain < CHAINS; ++chain) values[chain] = values[chain] * 0.999f + 0.001f;
    }
    float sum = 0.0f;
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) sum += values[chain];
    results[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
