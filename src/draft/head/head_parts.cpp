#include "draft/head/head_parts.h"

namespace talon {

std::string first_architecture(const Json& config) {
  if (!config.is_object()) return "";
  const Json list = config.value("architectures", Json());
  if (!list.is_array() || list.empty() || !list.front().is_string()) return "";
  return list.front().get<std::string>();
}

int tensor_rows(const StoredTensor& tensor) { return static_cast<int>(tensor.shape[0]); }
int tensor_columns(const StoredTensor& tensor) { return static_cast<int>(tensor.shape[1]); }

HeadCounts count_heads(const HeadTensors& tensors, int q_rows, int k_rows, int head_dim) {
  const bool is_even = head_dim > 0 && head_dim % 2 == 0;
  const bool whole = is_even && k_rows > 0 && q_rows % head_dim == 0 && k_rows % head_dim == 0;
  if (!whole || q_rows % k_rows != 0) {
    fail(
        "{}: \"q_proj.weight\" and \"k_proj.weight\": expected whole heads of an even size that "
        "share keys evenly, found {} and {} rows for heads of {}",
        tensors.doing(), q_rows, k_rows, head_dim);
  }
  return {q_rows / head_dim, k_rows / head_dim};
}

}  // namespace talon
