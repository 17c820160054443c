// A small kernel for the tests of the compiler: shared memory, a barrier, and arithmetic that must not be fused.
extern "C" __global__ __launch_bounds__(128) void row_sum(const float* values, float* sums, int n)
{
    __shared__ float shared[128 + 2 * RADIUS];
    const int at = blockIdx.x * 128 + threadIdx.x;
    shared[threadIdx.x + RADIUS] = at < n ? values[at] : 0.0f;
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k <= 2 * RADIUS; ++k) sum += shared[threadIdx.x + k] * 0.5f;
    if (at < n) sums[at] = sum;
}
