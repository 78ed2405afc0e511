#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "backend/wrap/forwarding.h"

namespace talon::test {

/// A backend that breaks its promise: a product of several rows comes out a little larger than that
/// of one row, as it would if its sums ran in another order. `ulps`: by how many units in the last
/// place.
class RowCountDependentBackend : public ForwardingBackend {
 public:
  RowCountDependentBackend(std::unique_ptr<Backend> inner, int ulps)
      : ForwardingBackend(std::move(inner)), ulps_(ulps) {}

  void linear(const LinearArgs& args) override {
    ForwardingBackend::linear(args);
    if (args.input.rows == 1) return;
    for (const Projection& projection : args.outputs) nudge(projection.out);
  }

 private:
  void nudge(const View& view) {
    std::vector<float> row(static_cast<std::size_t>(view.cols));
    for (int i = 0; i < view.rows; ++i) {
      inner_->download(view.row_range(i, 1), row);
      for (float& value : row)
        value *= 1 + static_cast<float>(ulps_) * std::numeric_limits<float>::epsilon();
      inner_->upload(row, view.row_range(i, 1));
    }
  }

  int ulps_;
};

/// A backend whose first row of every product holds NaN once `spoil` is set.
class NanBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  void linear(const LinearArgs& args) override {
    ForwardingBackend::linear(args);
    if (!spoil) return;
    for (const Projection& projection : args.outputs) {
      const std::vector<float> row(static_cast<std::size_t>(projection.out.cols),
                                   std::numeric_limits<float>::quiet_NaN());
      inner_->upload(row, projection.out.row_range(0, 1));
    }
  }

  bool spoil = false;
};

}  // namespace talon::test
