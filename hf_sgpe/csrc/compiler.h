// All compiler-specific code.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#if defined(_WIN32)
#include <intrin.h>
#endif

#if defined(_MSC_VER)
#define HF_SGPE_INLINE __forceinline
#define HF_SGPE_INLINE_LAMBDA
#else
#define HF_SGPE_INLINE inline __attribute__((always_inline))
#define HF_SGPE_INLINE_LAMBDA __attribute__((always_inline))
#endif

#if defined(__SSE2__) || defined(_M_X64)
#include <immintrin.h>
#define HF_SGPE_SSE2 1
#else
#define HF_SGPE_SSE2 0
#endif

// Functions with this mark may use AVX2. Call them only if has_avx2() is true.
#if (defined(__x86_64__) && defined(__GNUC__)) || defined(_M_X64)
#define HF_SGPE_AVX2 1
#if defined(__GNUC__) || defined(__clang__)
#define HF_SGPE_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define HF_SGPE_TARGET_XSAVE __attribute__((target("xsave")))
#else
#define HF_SGPE_TARGET_AVX2
#define HF_SGPE_TARGET_XSAVE
#endif
#else
#define HF_SGPE_AVX2 0
#endif

// All 64-bit ARM processors have NEON.
#if (defined(__aarch64__) && defined(__ARM_NEON)) || defined(_M_ARM64)
#include <arm_neon.h>
#define HF_SGPE_NEON 1
#else
#define HF_SGPE_NEON 0
#endif

namespace hf_sgpe {

// Prefetches the cache line of an address, which need not be valid.
HF_SGPE_INLINE void prefetch_line(const void* address) {
#if defined(__GNUC__)
  __builtin_prefetch(address);
#elif HF_SGPE_SSE2
  _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T0);
#else
  (void)address;
#endif
}

// An allocator that asks the system for large pages, because a look-up in a large table often needs a new page. The alignment
// is that of a cache line at least.
template <class T>
struct LargePages {
  using value_type = T;

  LargePages() = default;
  template <class Other>
  LargePages(const LargePages<Other>&) {}

  T* allocate(size_t n) {
    void* const memory = ::operator new(n * sizeof(T), alignment(n));
#if defined(__linux__)
    if (n * sizeof(T) >= kPage) madvise(memory, n * sizeof(T), MADV_HUGEPAGE);
#endif
    return static_cast<T*>(memory);
  }
  template <class U>
  void construct(U* place) { ::new (static_cast<void*>(place)) U; }  // without clearing numbers
  void deallocate(T* memory, size_t n) { ::operator delete(memory, alignment(n)); }
  bool operator==(const LargePages&) const { return true; }

 private:
  static constexpr size_t kPage = size_t{1} << 21;
  static std::align_val_t alignment(size_t n) { return std::align_val_t{n * sizeof(T) >= kPage ? kPage : 64}; }
};

#if HF_SGPE_AVX2
HF_SGPE_TARGET_XSAVE inline bool has_avx2() {
#if !defined(_WIN32)
  __builtin_cpu_init();  // kVectors may be initialized before the compiler's own call
  return __builtin_cpu_supports("avx2");
#else  // also for GCC and Clang, whose libraries for Windows may lack this list
  int registers[4];
  __cpuid(registers, 1);
  constexpr int kSavesAvx = 3 << 27;  // AVX, and an operating system that saves its registers
  if ((registers[2] & kSavesAvx) != kSavesAvx || (_xgetbv(0) & 6) != 6) return false;
  __cpuidex(registers, 7, 0);
  return registers[1] & 1 << 5;
#endif
}
#endif

// Whether to use vector instructions. HF_SGPE_PORTABLE in the environment turns them off for tests.
inline const bool kVectors = [] {
#if HF_SGPE_AVX2
  return has_avx2() && !std::getenv("HF_SGPE_PORTABLE");
#else
  return HF_SGPE_NEON && !std::getenv("HF_SGPE_PORTABLE");
#endif
}();

// The exclusive or of the two halves of a 128-bit product, computed from 64-bit products.
constexpr uint64_t mix_by_halves(uint64_t a, uint64_t b) {
  const uint64_t a_low = a & UINT32_MAX, a_high = a >> 32, b_low = b & UINT32_MAX, b_high = b >> 32;
  const uint64_t low = a_low * b_low, first = a_high * b_low, second = a_low * b_high;
  const uint64_t middle = (low >> 32) + (first & UINT32_MAX) + (second & UINT32_MAX);
  return a * b ^ (a_high * b_high + (first >> 32) + (second >> 32) + (middle >> 32));
}
static_assert(mix_by_halves(UINT64_MAX, UINT64_MAX) == UINT64_MAX);  // the halves are 2**64 - 2 and 1
static_assert(mix_by_halves(uint64_t{1} << 32, uint64_t{5} << 32) == 5);

// The same with the processor's instruction, if it has one.
HF_SGPE_INLINE uint64_t mix(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
  __extension__ typedef unsigned __int128 Wide;
  const auto product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
#elif defined(_MSC_VER) && defined(_M_X64)
  uint64_t high;
  const uint64_t low = _umul128(a, b, &high);
  return low ^ high;
#elif defined(_MSC_VER) && defined(_M_ARM64)
  return a * b ^ __umulh(a, b);
#else
  return mix_by_halves(a, b);
#endif
}

}  // namespace hf_sgpe
