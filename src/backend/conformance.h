#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/test_matrices.h"
#include "backend/reference/reference.h"
#include "backend/wrap/checking.h"
#include "core/error.h"
#include "core/types.h"

namespace talon::conformance {

using cpu::random_matrix;
using cpu::random_rows;
using cpu::TestMatrix;

// The same cases on every backend. Values are compared with the reference's, each operation fed the
// same inputs (CheckingBackend); row-exactness is compared by bytes.

struct BackendCase {
  std::string name;
  CpuKernels kernels = CpuKernels::best;
  std::optional<Activations> activations;  // none: the reference

  std::unique_ptr<Backend> make(int threads) const {
    if (!activations) return make_reference_backend(threads);
    return make_cpu_backend({.threads = threads, .kernels = kernels, .activations = *activations});
  }
};
inline void PrintTo(const BackendCase& backend, std::ostream* out) { *out << backend.name; }

/// The largest difference allowed, as a part of the root mean square of the expected row.
struct Tolerance {
  // Weights and activations in float32, sums in another order.
  static constexpr double kFloat32 = 2e-5;
  static constexpr double k16Bit = 6e-4;  // activations rounded to 1/65278 of their group's largest
  static constexpr double k8Bit = 0.12;   // ... to 1/127
  static constexpr double kHalfCache = 5e-3;  // keys and values on either side of a binary16 step
  static constexpr double kBf16Cache = 0.12;  // ... of a bf16 step; queries and weights, too
  static constexpr double kBf16 = 8e-3;       // ... to the 8 significant bits of bf16
  static double linear(StorageType weight, std::optional<Activations> activations) {
    const bool fine = activations == Activations::bits16;
    if (weight == StorageType::bf16) return !activations || fine ? kFloat32 : kBf16;
    const bool exact = weight == StorageType::f32 || weight == StorageType::f16 || !activations;
    return exact ? kFloat32 : fine ? k16Bit : k8Bit;
  }
  static double attention(KvType cache) {
    return cache == KvType::f32 ? kFloat32 : cache == KvType::f16 ? kHalfCache : kBf16Cache;
  }
};

inline constexpr StorageType kAllTypes[] = {
    StorageType::f32,   StorageType::f16,     StorageType::bf16,   StorageType::q8_0,
    StorageType::q4_0,  StorageType::q4_1,    StorageType::q5_0,   StorageType::q5_1,
    StorageType::q2_k,  StorageType::q3_k,    StorageType::q4_k,   StorageType::q5_k,
    StorageType::q6_k,  StorageType::iq4_nl,  StorageType::iq4_xs, StorageType::iq2_xxs,
    StorageType::mxfp4, StorageType::iq1_s,   StorageType::iq1_m,  StorageType::iq2_xs,
    StorageType::iq2_s, StorageType::iq3_xxs, StorageType::iq3_s,  StorageType::tq1_0,
    StorageType::tq2_0, StorageType::nvfp4};

/// A backend with a few conveniences.
class Device {
 public:
  explicit Device(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}
  Backend* operator->() { return backend_.get(); }
  Backend& backend() { return *backend_; }

  View zeros(int rows, int cols) {
    buffers_.push_back(backend_->allocate(rows, cols));
    return buffers_.back().view();
  }
  View put(std::span<const float> values, int rows, int cols) {
    const View view = zeros(rows, cols);
    backend_->upload(values, view);
    return view;
  }
  View random(int rows, int cols, unsigned seed) {
    return put(random_rows(rows, cols, seed), rows, cols);
  }
  Indices indices(int count) {
    lists_.push_back(backend_->allocate_indices(count));
    return lists_.back().first(count);
  }
  Indices put(std::span<const std::int32_t> values) {
    const Indices list = indices(static_cast<int>(values.size()));
    backend_->upload(values, list);
    return list;
  }
  Indices put(std::initializer_list<std::int32_t> values) {
    return put(std::span(values.begin(), values.size()));
  }
  std::vector<std::int32_t> get(const Indices& list) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(list.count));
    backend_->download(list, values);
    return values;
  }
  std::vector<float> get(const View& view) {
    std::vector<float> values(static_cast<std::size_t>(view.rows) *
                              static_cast<std::size_t>(view.cols));
    backend_->download(view, values);
    return values;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::vector<Buffer> buffers_;
  std::vector<IndexBuffer> lists_;
};

inline bool same_bytes(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class Conformance : public testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    try {
      GetParam().make(1);
    } catch (const UsageError& error) {
      GTEST_SKIP() << error.what();
    }
  }
  Device plain(int threads = 2) { return Device(GetParam().make(threads)); }

  /// Runs `body` on a device whose every operation is compared with the reference.
  template <typename Body>
  void check(double tolerance, const std::string& what, Body&& body) {
    auto checking = make_checking_backend(GetParam().make(2), make_reference_backend(1), tolerance);
    CheckingBackend& watched = *checking;
    Device device(std::move(checking));
    body(device);
    for (const Mismatch& m : watched.mismatches()) {
      ADD_FAILURE() << what << " " << m.operation << " differs by " << m.largest_difference
                    << " where values are about " << m.scale;
    }
  }
};

inline std::vector<BackendCase> backend_cases() {
  std::vector<BackendCase> cases = {{"reference", CpuKernels::best, std::nullopt}};
  const std::pair<std::string, CpuKernels> sets[] = {{"portable", CpuKernels::portable},
                                                     {"avx2", CpuKernels::avx2},
                                                     {"avx512_vnni", CpuKernels::avx512_vnni},
                                                     {"avx512_bf16", CpuKernels::avx512_bf16},
                                                     {"amx", CpuKernels::amx}};
  for (const auto& [name, kernels] : sets) {
    for (const Activations activations :
         {Activations::bits8, Activations::mixed, Activations::bits16}) {
      cases.push_back({fmt::format("{}_{}", name, name_of(activations)), kernels, activations});
    }
  }
  return cases;
}
inline std::string case_name(const testing::TestParamInfo<BackendCase>& tested) {
  return tested.param.name;
}

}  // namespace talon::conformance
