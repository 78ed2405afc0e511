#include "draft/output_head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "core/error.h"
#include "draft/coupling/cut_race.h"

namespace talon {
namespace {

/// Calls work(begin, end) for each run of rows of the same kind, as long as they are.
template <typename KindOf, typename Work>
void for_each_run(int rows, const KindOf& kind_of, const Work& work) {
  for (int begin = 0, end; begin < rows; begin = end) {
    for (end = begin + 1; end < rows && kind_of(end) == kind_of(begin);) ++end;
    work(begin, end);
  }
}

std::span<const DraftPlace> rows_of(std::span<const DraftPlace> places, int begin, int end) {
  if (places.empty()) return places;
  return places.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

/// Of rows of `children` from first_row on: tokens that are among the likeliest for want of others.
void drop_banned(std::span<const DraftPlace> places, RowChildren& children, int first_row) {
  const auto per_row = static_cast<std::size_t>(children.count);
  for (std::size_t row = 0; row < places.size(); ++row) {
    if (places[row].changes == nullptr) continue;
    const std::size_t begin = (static_cast<std::size_t>(first_row) + row) * per_row;
    for (std::size_t i = begin; i < begin + per_row; ++i) {
      if (places[row].bans(children.token[i]))
        children.log_p[i] = -std::numeric_limits<float>::infinity();
    }
  }
}

}  // namespace

OutputHead::OutputHead(Backend& backend, const Weight& matrix,
                       std::span<const TokenId> target_token, const Coupling& coupling,
                       const LogitForm& form)
    : backend_(backend),
      matrix_(matrix),
      target_token_(target_token),
      coupling_(coupling),
      form_(form),
      noise_row_(backend),
      shifts_(backend, matrix.rows, target_token),
      penalties_(backend, matrix.rows, target_token),
      logits_(backend.allocate(kMostRows, matrix.rows)) {
  if (!coupling.on) return;
  noise_.emplace(backend, matrix.rows, target_token, kMostRows);
  row_noise_ = backend.allocate(kMostRows, matrix.rows);
}

RowChildren OutputHead::top_children(const View& features, int count,
                                     std::span<const DraftPlace> places, const OutputNorm& norm,
                                     const GuideFeatures& guides) {
  RowChildren children = prepare(features.rows, count);
  for (int first = 0; first < features.rows; first += kMostRows) {
    const int rows = std::min(kMostRows, features.rows - first);
    const View logits = logits_.rows(rows);
    product(features.row_range(first, rows), norm, logits);
    if (guides.features) guide(logits, first, norm, guides);
    choose(logits, rows_of(places, first, first + rows), children, first);
  }
  return children;
}

std::vector<float> OutputHead::logits(const View& features, const OutputNorm& norm,
                                      const GuideFeatures& guides) {
  const auto width = static_cast<std::size_t>(matrix_.rows);
  std::vector<float> all(static_cast<std::size_t>(features.rows) * width);
  std::vector<Fence> fences;
  for (int first = 0; first < features.rows; first += kMostRows) {
    const int rows = std::min(kMostRows, features.rows - first);
    const View logits = logits_.rows(rows);
    product(features.row_range(first, rows), norm, logits);
    if (guides.features) guide(logits, first, norm, guides);
    const auto to = std::span(all).subspan(static_cast<std::size_t>(first) * width,
                                           static_cast<std::size_t>(rows) * width);
    fences.push_back(backend_.download_async(logits, to));
  }
  wait_for_all(fences);
  return all;
}

/// As the target does it: u + scale * (c - u).
void OutputHead::guide(const View& logits, int first_row, const OutputNorm& norm,
                       const GuideFeatures& guide) {
  if (!guide_logits_) guide_logits_ = backend_.allocate(kMostRows, matrix_.rows);
  const View guide_logits = guide_logits_.rows(logits.rows);
  product(guide.features.row_range(first_row, logits.rows), norm, guide_logits);
  for (int row = 0; row < logits.rows; ++row) {
    const float scale = guide.scale[static_cast<std::size_t>(first_row + row)];
    if (scale <= 1) continue;
    const View own = logits.row_range(row, 1), other = guide_logits.row_range(row, 1);
    backend_.add_scaled(own, other, -1, own);
    backend_.scale(own, scale);
    backend_.add(other, own, own);
  }
}

RowChildren OutputHead::best(const View& logits, int count, std::span<const DraftPlace> places) {
  expects(logits.rows <= kMostRows, "rows of one product");
  RowChildren children = prepare(logits.rows, count);
  choose(logits, places, children, 0);
  return children;
}

void OutputHead::product(const View& features, const OutputNorm& norm, const View& logits) {
  const Projection output[] = {{&matrix_, logits}};
  backend_.linear({.input = features,
                   .transform = norm.weight ? InputTransform::rms_norm : InputTransform::none,
                   .norm = norm.weight,
                   .norm_epsilon = norm.epsilon,
                   .outputs = output,
                   .rough = true});
  if (form_.scale != 1) backend_.scale(logits, form_.scale);
  if (form_.cap > 0) backend_.soft_cap(logits, form_.cap);
}

RowChildren OutputHead::prepare(int rows, int count) {
  RowChildren children;
  children.count = std::min(count, matrix_.rows);
  children.token.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(children.count));
  children.log_p.resize(children.token.size());
  make_room(children.count);
  return children;
}

void OutputHead::make_room(int count) {
  if (top_.view().cols >= count) return;
  chosen_ = backend_.allocate_indices(kMostRows * count);
  top_ = backend_.allocate(kMostRows, count);  // last: it says that there is room
}

/// The `count` largest of each row, descending, and the target's tokens of them.
void OutputHead::download_top(const View& values, int count, std::span<TokenId> tokens,
                              std::span<float> top) {
  const View largest = top_.view().col_range(0, count).row_range(0, values.rows);
  const Indices chosen = chosen_.first(values.rows * count);
  backend_.top_k(values, count, largest, chosen);
  Fence fence = backend_.download_async(largest, top);
  backend_.download(chosen, tokens);
  fence.wait();
  if (target_token_.empty()) return;
  for (TokenId& token : tokens) token = target_token_[static_cast<std::size_t>(token)];
}

/// Of the rows of `children` from first_row on. Rows whose requests cut their laws to few tokens
/// and others in turn, run by run.
void OutputHead::choose(const View& logits, std::span<const DraftPlace> places,
                        RowChildren& children, int first_row) {
  change(logits, places);
  const auto is_cut = [&](int row) {
    return !places.empty() && places[static_cast<std::size_t>(row)].cut.any();
  };
  for_each_run(logits.rows, is_cut, [&](int begin, int end) {
    const View run = logits.row_range(begin, end - begin);
    const auto choose_run =
        is_cut(begin) ? &OutputHead::choose_after_cut : &OutputHead::choose_by_score;
    (this->*choose_run)(run, rows_of(places, begin, end), children, first_row + begin);
  });
  drop_banned(places, children, first_row);
}

/// Adds bans and bias, then does what penalties do, as the sampler has it. Scores of places that
/// race are beta times what stands here.
void OutputHead::change(const View& logits, std::span<const DraftPlace> places) {
  if (places.empty()) return;
  const auto kind_of = [&](int row) {
    const DraftPlace& place = places[static_cast<std::size_t>(row)];
    return std::tuple(place.changes, place.is_early(), place.penalties, place.races());
  };
  for_each_run(logits.rows, kind_of, [&](int begin, int end) {
    const DraftPlace& place = places[static_cast<std::size_t>(begin)];
    const double scale = place.races() ? 1 / coupling_.beta : 1;
    if (place.changes != nullptr) {
      const View shift = shifts_.row_of(place, static_cast<float>(scale));
      for (int row = begin; row < end; ++row)
        backend_.add(logits.row_range(row, 1), shift, logits.row_range(row, 1));
    }
    if (place.penalties != nullptr)
      penalties_.change(logits.row_range(begin, end - begin), *place.penalties, scale);
  });
}

void OutputHead::choose_by_score(const View& logits, std::span<const DraftPlace> places,
                                 RowChildren& children, int first_row) {
  score(logits, places);
  const auto per_row = static_cast<std::size_t>(children.count);
  const std::size_t begin = static_cast<std::size_t>(first_row) * per_row;
  const std::size_t size = static_cast<std::size_t>(logits.rows) * per_row;
  const auto log_p = std::span(children.log_p).subspan(begin, size);
  download_top(logits, children.count, std::span(children.token).subspan(begin, size), log_p);
  for (float& p : log_p) p = std::log(p);
}

void OutputHead::choose_after_cut(const View& logits, std::span<const DraftPlace> places,
                                  RowChildren& children, int first_row) {
  constexpr int kCandidates = 64;
  const int count = std::min(std::max(children.count, kCandidates), matrix_.rows);
  make_room(count);
  const auto per_row = static_cast<std::size_t>(count);
  std::vector<TokenId> tokens(static_cast<std::size_t>(logits.rows) * per_row);
  std::vector<float> values(tokens.size());
  download_top(logits, count, tokens, values);
  const auto wanted = static_cast<std::size_t>(children.count);
  for (std::size_t row = 0; row < places.size(); ++row) {
    const auto of_row = std::span(tokens).subspan(row * per_row, per_row);
    const auto chances = std::span(values).subspan(row * per_row, per_row);
    race_after_cut(places[row], coupling_, of_row, chances);
    const std::size_t to = (static_cast<std::size_t>(first_row) + row) * wanted;
    for (std::size_t i = 0; i < wanted; ++i) {
      children.token[to + i] = of_row[i];
      children.log_p[to + i] = std::log(chances[i]);
    }
  }
}

/// Makes chances of logits. Rows whose draws are foreseen and others in turn, run by run: a softmax
/// has one temperature.
void OutputHead::score(const View& logits, std::span<const DraftPlace> places) {
  if (places.empty()) return backend_.softmax(logits, 1.0F, logits);
  const auto races = [&](int row) { return places[static_cast<std::size_t>(row)].races(); };
  for_each_run(logits.rows, races, [&](int begin, int end) {
    const View run = logits.row_range(begin, end - begin);
    float temperature = 1;
    if (races(begin)) {
      std::vector<std::int32_t> noise_rows;
      for (const DraftPlace& place : rows_of(places, begin, end))
        noise_rows.push_back(noise_->row_of(place, coupling_));
      const View noise = row_noise_.rows(run.rows);
      backend_.gather_rows(noise_->view(), noise_row_.put(noise_rows), noise);
      backend_.add(run, noise, run);
      temperature = static_cast<float>(1 / (coupling_.beta * coupling_.gamma));
    }
    backend_.softmax(run, temperature, run);
  });
}

}  // namespace talon
