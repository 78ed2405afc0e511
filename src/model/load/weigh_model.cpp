#include "model/load/weigh_model.h"

#include <utility>

#include "backend/wrap/forwarding.h"
#include "model/load/load_model.h"

namespace talon {
namespace {

/// Says of every matrix how it is kept, and lets it go.
class WeighingBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  std::unique_ptr<Weight> load_weight(const StoredMatrix& matrix, WeightLayout layout) override {
    const std::unique_ptr<Weight> weight = inner_->load_weight(matrix, layout);
    kept_[matrix.name].add(*weight);
    auto said = std::make_unique<Weight>();
    said->rows = weight->rows;
    said->cols = weight->cols;
    said->bytes = weight->bytes;
    said->layout = weight->layout;
    said->exact = weight->exact;
    return said;
  }
  /// By the names that matrices were asked for.
  const KeptTensors& kept() const { return kept_; }

 private:
  KeptTensors kept_;
};

/// The tensor that holds a matrix, or the codes of one that was put together.
std::string codes_of(const std::string& matrix, const Checkpoint& checkpoint) {
  if (checkpoint.find(matrix)) return matrix;
  std::string words = matrix;
  const std::size_t end = matrix.rfind("weight");
  if (end != std::string::npos) words.insert(end, "q");
  for (const std::string& name : {words, matrix + "_packed", matrix + "_blocks"}) {
    if (checkpoint.find(name)) return name;
  }
  return matrix;
}

KeptTensor kept_floats(const StoredTensor& tensor) {
  KeptTensor kept{.layout = "f32", .bytes = sizeof(float)};
  for (const std::int64_t size : tensor.shape) kept.bytes *= static_cast<std::uint64_t>(size);
  return kept;
}

}  // namespace

void KeptTensor::add(const Weight& weight) {
  if (layout.empty()) {
    layout = weight.layout;
  } else if (layout.find(weight.layout) == std::string::npos) {
    layout += " and " + weight.layout;
  }
  bytes += weight.bytes;
  exact = exact && weight.exact;
}

KeptTensors weigh_model(const Checkpoint& checkpoint, std::unique_ptr<Backend> backend,
                        const LoadOptions& options) {
  WeighingBackend weighing(std::move(backend));
  TensorLoader tensors(checkpoint, weighing, options);
  load_by(tensors, weighing, options.context);
  KeptTensors kept;
  for (const auto& [matrix, weights] : weighing.kept()) {
    kept[codes_of(matrix, checkpoint)] = weights;
  }
  for (const StoredTensor& tensor : checkpoint.tensors) {
    if (kept.contains(tensor.name) || !tensors.was_read(tensor.name)) continue;
    kept[tensor.name] = kept_floats(tensor);
  }
  return kept;
}

}  // namespace talon
