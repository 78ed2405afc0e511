#include "convert/kept_weights.h"

#include <algorithm>
#include <functional>

#include "backend/reference/reference.h"
#include "backend/wrap/forwarding.h"
#include "core/machine/processors.h"

namespace talon {
namespace {

class KeepingBackend : public ForwardingBackend {
 public:
  KeepingBackend(const Checkpoint& checkpoint, std::unique_ptr<Backend> inner)
      : ForwardingBackend(std::move(inner)), checkpoint_(checkpoint) {}

  std::unique_ptr<Weight> load_weight(const StoredMatrix& matrix, WeightLayout layout) override {
    auto weight = std::make_unique<KeptWeight>();
    weight->rows = matrix.rows;
    weight->cols = matrix.cols;
    weight->bytes = matrix.bytes.size();
    weight->type = matrix.type;
    weight->stays_float = layout == WeightLayout::f32;
    weight->order.assign(matrix.row_order.begin(), matrix.row_order.end());
    weight->from = matrix.bytes;
    if (!is_stored(matrix.bytes)) {
      weight->own.assign(matrix.bytes.begin(), matrix.bytes.end());
      weight->from = weight->own;
    }
    return weight;
  }

 private:
  /// Whether the bytes stay where they are.
  bool is_stored(std::span<const std::byte> bytes) const {
    return std::ranges::any_of(checkpoint_.files, [&](const MappedFile& file) {
      const auto whole = file.bytes();
      const std::less_equal<> before;
      return before(whole.data(), bytes.data()) &&
             before(bytes.data() + bytes.size(), whole.data() + whole.size());
    });
  }

  const Checkpoint& checkpoint_;
};

}  // namespace

std::size_t KeptWeight::row_bytes() const {
  const BlockShape block = block_shape(type);
  return static_cast<std::size_t>(cols) / block.elements * block.bytes;
}

std::span<const std::byte> KeptWeight::row(int index) const {
  const auto stored =
      static_cast<std::size_t>(order.empty() ? index : order[static_cast<std::size_t>(index)]);
  return from.subspan(stored * row_bytes(), row_bytes());
}

std::unique_ptr<KeptWeight> keep_values(std::span<const float> values, int rows) {
  auto weight = std::make_unique<KeptWeight>();
  weight->rows = rows;
  weight->cols = static_cast<int>(values.size()) / rows;
  weight->stays_float = true;
  const auto bytes = std::as_bytes(values);
  weight->own.assign(bytes.begin(), bytes.end());
  weight->from = weight->own;
  return weight;
}

std::unique_ptr<Backend> make_keeping_backend(const Checkpoint& checkpoint) {
  return std::make_unique<KeepingBackend>(checkpoint, make_reference_backend(worker_count(0)));
}

}  // namespace talon
