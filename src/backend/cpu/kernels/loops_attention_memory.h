#pragma once

#include "backend/cpu/kernels/loops_math.h"

// How keys and values are read for attention, in terms of the lanes_*.h of one instruction set,
// which the including unit has included before.
namespace talon::cpu {
namespace {

constexpr int kPageSlots = 64;

/// How keys or values lie in memory: as the cache stores them, or a page of them as floats, the
/// keys then as [dim][64 slots].
enum class Form { f32, f16, page };

constexpr int bytes_of(Form form) { return form == Form::f16 ? 2 : 4; }
template <Form kForm>
inline Floats load_stored(const std::byte* p) {
  if constexpr (kForm == Form::f16) {
    return load_half(p);
  } else {
    return load(reinterpret_cast<const float*>(p));
  }
}
/// From one dimension of 16 keys to the next.
template <Form kForm>
constexpr std::ptrdiff_t key_step() {
  return bytes_of(kForm) * (kForm == Form::page ? kPageSlots : kLanes);
}
/// From 16 keys to the next ones.
template <Form kForm>
inline std::ptrdiff_t key_block_bytes(int dim) {
  return static_cast<std::ptrdiff_t>(bytes_of(kForm)) * kLanes * (kForm == Form::page ? 1 : dim);
}

inline const std::byte* page_of(const AttentionCall& call, std::int32_t page) {
  return call.pages + static_cast<std::size_t>(page) * call.page_stride;
}

/// Memory that is read next, fetched a few lines at a time while a loop runs.
struct Ahead {
  const std::byte* at;
  const std::byte* end;
  int lines;  // of one step

  static constexpr int kStep = 8;  // positions or dimensions between two fetches
  void fetch() {
    for (int i = 0; i < lines && at < end; ++i, at += 64) prefetch(at);
  }
};

}  // namespace
}  // namespace talon::cpu
