#include "draft/output_head.h"

#include <algorithm>
#include <cmath>

namespace talon {
namespace {

constexpr int kMostRows = 64;  // of the product at once: bounds the logits' memory

}  // namespace

OutputHead::OutputHead(Backend& backend, const Weight& matrix,
                       std::span<const TokenId> target_token)
    : backend_(backend),
      matrix_(matrix),
      target_token_(target_token),
      logits_(backend.allocate(kMostRows, matrix.rows)) {}

RowChildren OutputHead::top_children(const View& features, int count, const OutputNorm& norm) {
  RowChildren children;
  children.count = std::min(count, matrix_.rows);
  const auto per_row = static_cast<std::size_t>(children.count);
  children.token.resize(static_cast<std::size_t>(features.rows) * per_row);
  children.log_p.resize(children.token.size());
  if (top_.view().cols < children.count) {
    chosen_ = backend_.allocate_indices(kMostRows * children.count);
    top_ = backend_.allocate(kMostRows, children.count);  // last: it says that there is room
  }
  for (int first = 0; first < features.rows; first += kMostRows) {
    const int rows = std::min(kMostRows, features.rows - first);
    const View logits = logits_.rows(rows);
    const Projection output[] = {{&matrix_, logits}};
    backend_.linear({.input = features.row_range(first, rows),
                     .transform = norm.weight ? InputTransform::rms_norm : InputTransform::none,
                     .norm = norm.weight,
                     .norm_epsilon = norm.epsilon,
                     .outputs = output,
                     .rough = true});
    backend_.softmax(logits, 1.0F, logits);
    const std::size_t begin = static_cast<std::size_t>(first) * per_row;
    const std::size_t size = static_cast<std::size_t>(rows) * per_row;
    const View top = top_.view().col_range(0, children.count).row_range(0, rows);
    const Indices chosen = chosen_.first(rows * children.count);
    backend_.top_k(logits, children.count, top, chosen);
    Fence values = backend_.download_async(top, std::span(children.log_p).subspan(begin, size));
    backend_.download(chosen, std::span(children.token).subspan(begin, size));
    values.wait();
  }
  for (float& p : children.log_p) p = std::log(p);
  if (!target_token_.empty()) {
    for (TokenId& token : children.token) token = target_token_[static_cast<std::size_t>(token)];
  }
  return children;
}

}  // namespace talon
