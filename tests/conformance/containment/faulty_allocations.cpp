#include "faulty_allocations.h"

#include <cstdlib>
#include <new>

namespace talon::test {
namespace {

thread_local Trigger trigger;
thread_local bool in_scope = false;

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  if (in_scope && trigger.due()) throw std::bad_alloc();
  void* const memory = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

Trigger& allocation_trigger() { return trigger; }
FaultyAllocations::FaultyAllocations() { in_scope = true; }
FaultyAllocations::~FaultyAllocations() { in_scope = false; }

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
