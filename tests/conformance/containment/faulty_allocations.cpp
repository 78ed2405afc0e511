#include "faulty_allocations.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>

namespace talon::test {
namespace {

thread_local Trigger trigger;
thread_local bool in_scope = false;
std::atomic<bool> any_in_scope = false;
std::mutex worker_mutex;  // workers allocate side by side
Trigger worker_trigger;

bool must_fail() {
  if (in_scope) return trigger.due();
  if (!any_in_scope) return false;
  const std::lock_guard lock(worker_mutex);
  return worker_trigger.due();
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  if (must_fail()) throw std::bad_alloc();
  void* const memory = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

Trigger& allocation_trigger() { return trigger; }
Trigger& worker_allocation_trigger() { return worker_trigger; }
FaultyAllocations::FaultyAllocations() { in_scope = any_in_scope = true; }
FaultyAllocations::~FaultyAllocations() { in_scope = any_in_scope = false; }

}  // namespace talon::test

void* operator new(std::size_t bytes) {
  return talon::test::allocate_or_throw(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return talon::test::allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
