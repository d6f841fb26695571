// in_parallel: a loop on several threads.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace hf_sgpe {

// Calls work(thread, i) for every i below n, on up to `threads` threads. Throws the first exception of any thread.
template <class Work>
void in_parallel(size_t n, size_t threads, Work&& work) {
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
  const auto loop = [&](size_t thread) {
    try {
      for (size_t i; !failed && (i = next.fetch_add(1)) < n;) work(thread, i);
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    for (size_t thread = 1; thread < std::min(threads, n); ++thread) others.emplace_back(loop, thread);
  } catch (...) {
    // If the system allows no more threads, the existing threads do all the work.
  }
  loop(0);
  for (std::thread& thread : others) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace hf_sgpe
