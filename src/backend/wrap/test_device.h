#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backend/wrap/forwarding.h"

namespace talon::test {

/// For tests: the operations of another backend as those of a device, whose memory is its own and
/// whose waits cost something. What is downloaded arrives when it is waited for.
class TestDevice : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  BackendTraits traits() const override {
    BackendTraits traits = ForwardingBackend::traits();
    traits.memory_bytes = std::size_t{1} << 30;
    traits.wait_us = 20;
    return traits;
  }
  Fence download_async(const View& from, std::span<float> to) override {
    rows += from.rows;
    return download_later(from, from.cols, to);
  }
  Fence download_async(const Indices& from, std::span<std::int32_t> to) override {
    return download_later(from, 0, to);
  }
  void synchronize() override {
    ForwardingBackend::synchronize();
    done_ = asked_;
  }

  /// How often rows of `cols` columns had to be waited for: that is, were no older than what had
  /// been waited for before. 0: indices.
  int waits_for(int cols) const { return static_cast<int>(std::ranges::count(waits_, cols)); }
  int waits() const { return static_cast<int>(waits_.size()); }
  int rows = 0;  // of matrices, downloaded

 private:
  template <typename Number>
  class Later : public Fence::Pending {
   public:
    Later(TestDevice& device, int cols, std::vector<Number> values, std::span<Number> to)
        : device_(device),
          number_(++device.asked_),
          cols_(cols),
          values_(std::move(values)),
          to_(to) {}
    ~Later() override { finish(); }
    void wait() override { finish(); }

   private:
    void finish() {
      if (number_ > device_.done_) {
        device_.waits_.push_back(cols_);
        device_.done_ = number_;
      }
      std::ranges::copy(values_, to_.begin());
      values_.clear();
    }

    TestDevice& device_;
    long number_;
    int cols_;
    std::vector<Number> values_;
    std::span<Number> to_;
  };

  template <typename From, typename Number>
  Fence download_later(const From& from, int cols, std::span<Number> to) {
    std::vector<Number> values(to.size());
    ForwardingBackend::download_async(from, values).wait();
    return Fence(std::make_unique<Later<Number>>(*this, cols, std::move(values), to));
  }

  long asked_ = 0, done_ = 0;  // downloads
  std::vector<int> waits_;     // columns of each
};

}  // namespace talon::test
