#include "draft/gemma4_assistant/assistant_network.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace talon {
namespace {

constexpr int kClusterRows = 16;  // whose logits lie in memory at once
static_assert(kClusterRows <= OutputHead::kMostRows);

/// Rows that see all of their texts and stand behind them. Rows of one text follow each other.
void lay_out_behind(std::span<const KvSequence* const> texts, KvLayers of,
                    AttentionLayout& layout) {
  layout = {};
  for (std::size_t row = 0; row < texts.size(); ++row) {
    const KvSequence& text = *texts[row];
    if (row == 0 || texts[row - 1] != &text) layout.pages.push_back(text.pages(of));
    const int length = text.length();
    layout.rows.push_back({.sequence = static_cast<std::int32_t>(layout.pages.size()) - 1,
                           .position = length,
                           .visible = length,
                           .slot = 0,
                           .contiguous = length});
  }
}

void append_rows(const RowChildren& from, RowChildren& to) {
  to.count = from.count;
  to.token.insert(to.token.end(), from.token.begin(), from.token.end());
  to.log_p.insert(to.log_p.end(), from.log_p.begin(), from.log_p.end());
}

}  // namespace

Gemma4AssistantNetwork::Gemma4AssistantNetwork(const Gemma4AssistantWeights& weights,
                                               const Coupling& coupling, int max_rows,
                                               int positions)
    : weights_(weights),
      backend_(*weights.target->backend),
      max_rows_(max_rows),
      positions_(positions),
      block_(backend_, weights.config.text.plans, weights.config.text.hidden, max_rows),
      rope_(backend_, weights.target->config.rope,
            rope_width(weights.target->config.rope, weights.config.text, LayerPlan::Rope::global),
            positions),
      pair_(backend_.allocate(max_rows, 2 * weights.config.target_hidden)),
      residual_(backend_.allocate(max_rows, weights.config.text.hidden)),
      normed_(backend_.allocate(max_rows, weights.config.text.hidden)),
      states_(backend_.allocate(max_rows, weights.config.target_hidden)),
      tokens_(backend_, max_rows),
      output_(backend_, *weights.output, weights.target_token, coupling),
      clusters_(backend_) {
  expects(max_rows >= 1 && positions >= 1);
  // Keys turn as the target has it, and queries with them.
  if (const auto& local = weights.target->config.local_rope) {
    local_rope_.emplace(backend_, *local,
                        rope_width(*local, weights.config.text, LayerPlan::Rope::local), positions);
  }
  const int clusters = weights.config.clusters;
  if (clusters == 0) return;
  const int size = weights.config.text.vocabulary / clusters;
  all_ = backend_.allocate(kClusterRows * clusters + 1, size);
  left_ = backend_.allocate(kClusterRows, weights.config.text.vocabulary);
  scores_ = backend_.allocate(kClusterRows, clusters);
  best_ = backend_.allocate(kClusterRows, weights.config.clusters_read);
  chosen_ = backend_.allocate_indices(kClusterRows * weights.config.clusters_read);
  const std::vector<float> never(static_cast<std::size_t>(size),
                                 -std::numeric_limits<float>::infinity());
  backend_.upload(never, all_.view().row_range(kClusterRows * clusters, 1));
}

View Gemma4AssistantNetwork::features(int rows) const {
  const int width = weights_.config.target_hidden;
  return pair_.rows(rows).col_range(width, width);
}

void Gemma4AssistantNetwork::lay_out(std::span<const KvSequence* const> texts, KvLayers of) {
  Layouts& layouts = of == KvLayers::far ? far_ : near_;
  lay_out_behind(texts, of, layouts.layout);
  layouts.prepared = backend_.prepare(layouts.layout);
}

BlockRows Gemma4AssistantNetwork::rows_in(const LayerPlan& plan, const KvSequence& text,
                                          int positions) {
  const KvPlace place = text.place(plan.cache_layer);
  const bool is_near = place.of == KvLayers::near;
  const bool is_local = plan.rope == LayerPlan::Rope::local && local_rope_;
  return {.cache = place.store,
          .layer = place.layer,
          .layout = (is_near ? near_ : far_).prepared.get(),
          .rope = (is_local ? *local_rope_ : rope_).reach(positions)};
}

/// docs/methods.md 2.5. All texts lie in one cache.
void Gemma4AssistantNetwork::forward(std::span<const TokenId> tokens,
                                     std::span<const KvSequence* const> texts) {
  const auto rows = static_cast<int>(tokens.size());
  expects(rows >= 1 && rows <= max_rows_ && texts.size() == tokens.size(), "at most max_rows rows");
  const ModelConfig& config = weights_.config.text;
  const ModelConfig& target = weights_.target->config;
  const auto has_near = [&](const LayerPlan& plan) {
    return texts.front()->place(plan.cache_layer).of == KvLayers::near;
  };
  lay_out(texts, KvLayers::far);
  if (std::ranges::any_of(config.plans, has_near)) lay_out(texts, KvLayers::near);
  const int positions = far_.prepared->positions;
  expects(positions <= positions_, "texts within the positions");

  const View both = pair_.rows(rows), x = residual_.rows(rows), normed = normed_.rows(rows);
  const View embedding = both.col_range(0, target.hidden);
  backend_.embed(*weights_.target->embedding, tokens_.put(tokens), embedding);
  if (target.embedding_scale != 1) backend_.scale(embedding, target.embedding_scale);
  const Projection before[] = {{weights_.before.get(), x}};
  backend_.linear({.input = both, .outputs = before, .rough = true});
  for (std::size_t layer = 0; layer < config.plans.size(); ++layer) {
    const LayerPlan& plan = config.plans[layer];
    block_.run(plan, weights_.layers[layer], rows_in(plan, *texts.front(), positions), x);
  }
  backend_.rms_norm(x, weights_.norm.view(), config.norm_epsilon, normed);
  const Projection after[] = {{weights_.after.get(), states_.rows(rows)}};
  backend_.linear({.input = normed, .outputs = after, .rough = true});
}

RowChildren Gemma4AssistantNetwork::top_children(int rows, int count,
                                                 std::span<const DraftPlace> places) {
  if (!weights_.centroids) return output_.top_children(normed_.rows(rows), count, places);
  RowChildren children;
  for (int first = 0; first < rows; first += kClusterRows) {
    const int taken = std::min(kClusterRows, rows - first);
    const auto of_rows =
        places.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(taken));
    append_rows(output_.best(logits_of_clusters(first, taken), count, of_rows), children);
  }
  return children;
}

std::vector<float> Gemma4AssistantNetwork::logits(int rows) {
  if (!weights_.centroids) return output_.logits(normed_.rows(rows));
  const auto width = static_cast<std::size_t>(weights_.output->rows);
  std::vector<float> all(static_cast<std::size_t>(rows) * width);
  for (int first = 0; first < rows; first += kClusterRows) {
    const int taken = std::min(kClusterRows, rows - first);
    const auto to = std::span(all).subspan(static_cast<std::size_t>(first) * width,
                                           static_cast<std::size_t>(taken) * width);
    backend_.download(logits_of_clusters(first, taken), to);
  }
  return all;
}

/// Of rows from `first` on: the logits of the tokens of the clusters whose centroids are the
/// likeliest, -infinity for all others.
View Gemma4AssistantNetwork::logits_of_clusters(int first, int rows) {
  const int clusters = weights_.config.clusters, read = weights_.config.clusters_read;
  const int vocabulary = weights_.output->rows, size = vocabulary / clusters;
  const View normed = normed_.view().row_range(first, rows);
  const View scores = scores_.rows(rows);
  const Projection to_scores[] = {{weights_.centroids.get(), scores}};
  backend_.linear({.input = normed, .outputs = to_scores, .rough = true});
  const Indices chosen = chosen_.first(rows * read);
  backend_.top_k(scores, read, best_.rows(rows), chosen);
  std::vector<std::int32_t> best(static_cast<std::size_t>(rows * read));
  backend_.download(chosen, best);
  output_.product(normed, {}, {all_.view().data, rows, vocabulary, vocabulary});
  std::vector<std::int32_t> from(static_cast<std::size_t>(rows * clusters),
                                 kClusterRows * clusters);
  for (std::size_t i = 0; i < best.size(); ++i) {
    const auto row = static_cast<std::int32_t>(i) / read;
    const std::int32_t place = row * clusters + best[i];
    from[static_cast<std::size_t>(place)] = place;
  }
  const View left = left_.rows(rows);
  backend_.gather_rows(all_.view(), clusters_.put(from), {left.data, rows * clusters, size, size});
  return left;
}

}  // namespace talon
