#include "draft/output_head.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace talon {
namespace {

constexpr int kMostRows = 64;  // of the product at once: bounds the logits' memory

}  // namespace

OutputHead::OutputHead(Backend& backend, const Weight& matrix,
                       std::span<const TokenId> target_token, const Coupling& coupling)
    : backend_(backend),
      matrix_(matrix),
      target_token_(target_token),
      coupling_(coupling),
      noise_(backend, matrix.rows, target_token, kMostRows),
      noise_row_(backend),
      logits_(backend.allocate(kMostRows, matrix.rows)) {}

RowChildren OutputHead::top_children(const View& features, int count,
                                     std::span<const DraftPlace> places, const OutputNorm& norm) {
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
    score(logits, places.empty() ? places
                                 : places.subspan(static_cast<std::size_t>(first),
                                                  static_cast<std::size_t>(rows)));
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

/// Makes chances of logits. Rows whose draws are foreseen and others in turn, run by run: a softmax
/// has one temperature.
void OutputHead::score(const View& logits, std::span<const DraftPlace> places) {
  if (places.empty()) return backend_.softmax(logits, 1.0F, logits);
  for (std::size_t begin = 0; begin < places.size();) {
    const bool races = places[begin].races();
    std::size_t end = begin;
    std::vector<std::int32_t> noise_rows;
    for (; end < places.size() && places[end].races() == races; ++end) {
      if (races) noise_rows.push_back(noise_.row_of(places[end], coupling_));
    }
    const View run = logits.row_range(static_cast<int>(begin), static_cast<int>(end - begin));
    float temperature = 1;
    if (races) {
      if (!row_noise_) row_noise_ = backend_.allocate(kMostRows, matrix_.rows);
      const View noise = row_noise_.rows(run.rows);
      backend_.gather_rows(noise_.view(), noise_row_.put(noise_rows), noise);
      backend_.add(run, noise, run);
      temperature = static_cast<float>(1 / (coupling_.beta * coupling_.gamma));
    }
    backend_.softmax(run, temperature, run);
    begin = end;
  }
}

}  // namespace talon
