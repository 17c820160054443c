// Kernels with one fault each, or none, to see what the emulated device shows.
constexpr int N = 64;

extern "C" __global__ void reversed(const int* from, int* to)
{
    __shared__ int shared[N];
    shared[threadIdx.x] = from[blockIdx.x * N + threadIdx.x];
    __syncthreads();
    to[blockIdx.x * N + threadIdx.x] = shared[N - 1 - threadIdx.x];
}

extern "C" __global__ void reversed_without_a_barrier(const int* from, int* to)
{
    __shared__ int shared[N];
    shared[threadIdx.x] = from[blockIdx.x * N + threadIdx.x];
    to[blockIdx.x * N + threadIdx.x] = shared[N - 1 - threadIdx.x];
}

extern "C" __global__ void counted_in_memory_of_the_last_block(int* to)
{
    __shared__ int count;
    if (blockIdx.x == 0 && threadIdx.x == 0) count = 0;
    __syncthreads();
    atomicAdd(&count, 1);
    __syncthreads();
    if (threadIdx.x == 0) to[blockIdx.x] = count;
}

extern "C" __global__ void smoothed_in_place(int* values)
{
    const int i = blockIdx.x * N + threadIdx.x;
    const int left = i > 0 ? values[i - 1] : 0;
    __syncthreads();
    values[i] += left;
}

extern "C" __global__ void a_barrier_for_some(int* to)
{
    if (threadIdx.x < 7) __syncthreads();
    to[threadIdx.x] = 1;
}

extern "C" __global__ void a_ballot_of_absent_lanes(int* to)
{
    if (threadIdx.x % 2) to[threadIdx.x] = (int)__ballot_sync(0xffffffffu, 1);
}

extern "C" __global__ void beyond_the_end(int* to)
{
    to[threadIdx.x + 1] = 5;
}
