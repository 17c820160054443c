// Runs the threads of a block as fibers, each with a stack of its own, until all have ended.
#include "cuda_on_cpu.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#if defined(WATCH_THREADS)  // By ThreadSanitizer, which watches the kernels and not this file.
#include <sanitizer/tsan_interface.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulation {

Here here;

namespace {

constexpr size_t STACK = 64 << 10;
constexpr unsigned LANES = 32;
constexpr unsigned char POISON = 0xc7;

enum State { READY, AT_BARRIER, IN_WARP, ENDED };

#if defined(__x86_64__)
typedef void* Context;
#else
typedef ucontext_t Context;
#endif

struct Fiber {
    Context context;
    State state;
    Index thread;
    unsigned mask;
    unsigned long long value;
    const char* what;
    char* stack;
#if defined(WATCH_THREADS)
    void* watched = nullptr;
#endif
};

struct Warp {
    unsigned long long values[LANES];
};

std::vector<Fiber> fibers;
std::vector<Warp> warps;
std::vector<char*> stacks;
Context scheduler;
Fiber* current;
unsigned current_number;
Body body;
void* arguments;
char error[200];
#if defined(WATCH_THREADS)
void* watched_scheduler;
// Released and acquired: before and after a block, at its barriers and at its warps' exchanges. Blocks are watched as if
// one came after the other: they have their shared memory at the same place. What they do to each other shows by the
// orders in which they run.
char before_block, after_block, at_barrier;
#endif
#if defined(__SANITIZE_ADDRESS__)
const void* scheduler_stack;
size_t scheduler_stack_nbytes;
#endif

#if defined(__x86_64__)
extern "C" void switch_context(void** from, void* to) __attribute__((visibility("hidden")));
asm(R"(
.text
.globl switch_context
.hidden switch_context
.type switch_context,@function
switch_context:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size switch_context,.-switch_context
)");
inline void go(Context& from, Context& to) { switch_context(&from, to); }
#else
inline void go(Context& from, Context& to) { swapcontext(&from, &to); }
#endif

__attribute__((noinline)) void leave()
{
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(current->state == ENDED ? nullptr : &fake, scheduler_stack, scheduler_stack_nbytes);
#endif
#if defined(WATCH_THREADS)
    __tsan_switch_to_fiber(watched_scheduler, __tsan_switch_to_fiber_no_sync);
#endif
    go(current->context, scheduler);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void begin()
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_nbytes);
#endif
#if defined(WATCH_THREADS)
    __tsan_acquire(&before_block);
#endif
    body(arguments);
#if defined(WATCH_THREADS)
    __tsan_release(&after_block);
#endif
    current->state = ENDED;
    leave();
    abort();
}

void prepare(Fiber& fiber)
{
    fiber.state = READY;
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(fiber.stack, STACK);
#endif
#if defined(__x86_64__)
    uint64_t* top = (uint64_t*)(fiber.stack + STACK);
    *--top = 0;
    *--top = (uint64_t)(void*)&begin;
    for (int saved = 0; saved < 6; ++saved) *--top = 0;
    fiber.context = top;
#else
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack;
    fiber.context.uc_stack.ss_size = STACK;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, begin, 0);
#endif
#if defined(WATCH_THREADS)
    fiber.watched = __tsan_create_fiber(0);
#endif
}

void resume(unsigned number)
{
    Fiber& fiber = fibers[number];
    current = &fiber;
    current_number = number;
    here.thread = fiber.thread;
    here.lane = number % LANES;
#if defined(__SANITIZE_ADDRESS__)
    void* fake;
    __sanitizer_start_switch_fiber(&fake, fiber.stack, STACK);
#endif
#if defined(WATCH_THREADS)
    __tsan_switch_to_fiber(fiber.watched, __tsan_switch_to_fiber_no_sync);
#endif
    go(scheduler, fiber.context);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

struct Random {
    unsigned long long state;
    unsigned below(unsigned n)
    {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (unsigned)((state >> 11) % n);
    }
};

void arrange(std::vector<unsigned>& numbers, int order, Random& random)
{
    const unsigned n = (unsigned)numbers.size();
    for (unsigned i = 0; i < n; ++i) numbers[i] = order == 1 ? n - 1 - i : i;
    if (order == 2)
        for (unsigned i = n; i > 1; --i) std::swap(numbers[i - 1], numbers[random.below(i)]);
}

// Lets the lanes go on that all have come; whether any has. What is wrong goes to `error`.
bool release_lanes(unsigned first)
{
    const unsigned n = std::min((unsigned)fibers.size() - first, LANES);
    unsigned waiting = 0;
    for (unsigned lane = 0; lane < n; ++lane)
        if (fibers[first + lane].state == IN_WARP) waiting |= 1u << lane;
    bool released = false;
    for (unsigned lane = 0; lane < n; ++lane) {
        if (!(waiting >> lane & 1)) continue;
        const Fiber& asking = fibers[first + lane];
        const unsigned mask = n == LANES ? asking.mask : asking.mask & ((1u << n) - 1);
        if (!(mask >> lane & 1)) {
            snprintf(error, sizeof error, "%s by a lane that its mask leaves out", asking.what);
            return false;
        }
        if ((mask & waiting) != mask) continue;
        for (unsigned other = 0; other < n; ++other)
            if (mask >> other & 1)
                if (fibers[first + other].mask != asking.mask || strcmp(fibers[first + other].what, asking.what)) {
                    snprintf(error, sizeof error, "%s: lanes disagree on what they do together", asking.what);
                    return false;
                }
        for (unsigned other = 0; other < n; ++other)
            if (mask >> other & 1) {
                warps[first / LANES].values[other] = fibers[first + other].value;
                fibers[first + other].state = READY;
            }
        waiting &= ~mask;
        released = true;
    }
    return released;
}

// Which warps sleep for a while, where the order is at random: the others run ahead of them as far as they may.
void put_to_sleep(std::vector<bool>& sleeps, int order, Random& random)
{
    for (size_t warp = 0; warp < sleeps.size(); ++warp) sleeps[warp] = order == 2 && random.below(2);
}

void run_block(std::vector<unsigned>& numbers, int order, Random& random)
{
    const unsigned n = (unsigned)fibers.size();
    for (Fiber& fiber : fibers) prepare(fiber);
    std::vector<bool> sleeps(warps.size());
    put_to_sleep(sleeps, order, random);
    unsigned ended = 0;
    while (ended < n) {
        arrange(numbers, order, random);
        bool moved = false, sleeping = false;
        for (unsigned number : numbers)
            if (fibers[number].state == READY) {
                if (sleeps[number / LANES]) {
                    sleeping = true;
                    continue;
                }
                resume(number);
                ended += fibers[number].state == ENDED;
                moved = true;
            }
        for (unsigned first = 0; first < n; first += LANES) {
            moved |= release_lanes(first);
            if (error[0]) return;
        }
        if (moved || ended == n) continue;
        if (!sleeping) {
            for (const Fiber& fiber : fibers)
                if (fiber.state != AT_BARRIER) {
                    snprintf(error, sizeof error, "a barrier or a warp's exchange that not all threads come to");
                    return;
                }
            for (Fiber& fiber : fibers) fiber.state = READY;
        }
        put_to_sleep(sleeps, order, random);
    }
}

}  // namespace

void barrier()
{
#if defined(WATCH_THREADS)
    __tsan_release(&at_barrier);
#endif
    current->state = AT_BARRIER;
    leave();
#if defined(WATCH_THREADS)
    __tsan_acquire(&at_barrier);
#endif
}

const unsigned long long* exchange(unsigned mask, unsigned long long value, const char* what)
{
    Warp& warp = warps[current_number / LANES];
    current->mask = mask;
    current->value = value;
    current->what = what;
#if defined(WATCH_THREADS)
    __tsan_release(&warp);
#endif
    current->state = IN_WARP;
    leave();
#if defined(WATCH_THREADS)
    __tsan_acquire(&warp);
#endif
    return warp.values;
}

const char* run(const Launch& launch, Body given_body, void* given, char* shared, size_t shared_nbytes)
{
    const unsigned n = launch.block.x * launch.block.y * launch.block.z;
    error[0] = 0;
    body = given_body;
    arguments = given;
    while (stacks.size() < n) {
        void* stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stack == MAP_FAILED) return "no memory for another stack";
        stacks.push_back((char*)stack);
    }
    fibers.assign(n, Fiber());
    warps.assign((n + LANES - 1) / LANES, Warp());
    for (unsigned i = 0; i < n; ++i) {
        fibers[i].stack = stacks[i];
        fibers[i].thread = {i % launch.block.x, i / launch.block.x % launch.block.y, i / launch.block.x / launch.block.y};
    }
    Random random{launch.seed | 1};
    std::vector<unsigned> blocks((size_t)launch.grid.x * launch.grid.y * launch.grid.z), numbers(n);
    arrange(blocks, launch.order, random);
    here.block_size = launch.block;
    here.grid_size = launch.grid;
#if defined(WATCH_THREADS)
    watched_scheduler = __tsan_get_current_fiber();
#endif
    for (unsigned block : blocks) {
        here.block = {block % launch.grid.x, block / launch.grid.x % launch.grid.y, block / launch.grid.x / launch.grid.y};
        memset(shared, POISON, shared_nbytes);
#if defined(WATCH_THREADS)
        __tsan_release(&before_block);
#endif
        run_block(numbers, launch.order, random);
        if (error[0]) return error;
#if defined(WATCH_THREADS)
        for (Fiber& fiber : fibers) __tsan_destroy_fiber(fiber.watched);
        __tsan_acquire(&after_block);
#endif
    }
    return nullptr;
}

}  // namespace emulation
