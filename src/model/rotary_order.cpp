#include "model/rotary_order.h"

namespace talon {

std::vector<std::int32_t> half_split_order(int heads, int head_dim) {
  std::vector<std::int32_t> order;
  for (int head = 0; head < heads; ++head) {
    for (int i = 0; i < head_dim; i += 2) order.push_back(head * head_dim + i);
    for (int i = 1; i < head_dim; i += 2) order.push_back(head * head_dim + i);
  }
  return order;
}

std::vector<std::int32_t> pairwise_order(int heads, int head_dim) {
  const std::vector<std::int32_t> half_split = half_split_order(heads, head_dim);
  std::vector<std::int32_t> order(half_split.size());
  for (std::size_t i = 0; i < half_split.size(); ++i)
    order[static_cast<std::size_t>(half_split[i])] = static_cast<std::int32_t>(i);
  return order;
}

}  // namespace talon
