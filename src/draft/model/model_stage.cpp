#include "draft/model/model_stage.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "core/error.h"

namespace talon {

ModelStage::ModelStage(std::unique_ptr<Drafter> drafter, Backend& backend,
                       const StageTraits& traits)
    : drafter_(std::move(drafter)), backend_(backend), traits_(traits) {}

/// The first row that is run produces the token after the next.
int ModelStage::most_known(std::span<const TokenId> text, const TextOwner& owner) const {
  return reads_features() ? std::max(0, drafter_->remembers(text, owner) - 1) : INT_MAX;
}

void ModelStage::begin(StageMemory& memory, std::span<const TokenId> text, int known,
                       const TextOwner& owner) const {
  const int seen = reads_features() && known > 0 ? known + 1 : 0;
  memory.state = drafter_->resume(text.first(static_cast<std::size_t>(seen)), owner, {});
  memory.seen = seen;
  if (reads_features())
    memory.features = backend_.allocate(traits_.most_rows, traits_.feature_width);
}

void ModelStage::follow(StageMemory& memory, std::span<const TokenId> text, int rows) const {
  cut(memory, rows);
  const int became_text = std::exchange(memory.rows, 0);
  if (became_text == 0) return;
  observe(
      memory,
      text.subspan(static_cast<std::size_t>(memory.seen), static_cast<std::size_t>(became_text)),
      memory.features.rows(became_text));
}

void ModelStage::read(StageMemory& memory, std::span<const TokenId> text, int first,
                      const View& features) const {
  if (!reads_features()) return;
  const int known = std::max(0, memory.seen - 1);  // rows whose features the stage has had
  const int end = first + features.rows;
  if (end <= known) return;
  expects(first <= known, "a stage reads all rows of a text");
  const int news = end + 1 - memory.seen;
  observe(memory,
          text.subspan(static_cast<std::size_t>(memory.seen), static_cast<std::size_t>(news)),
          features.row_range(known - first, end - known));
}

std::vector<TokenId> ModelStage::guess(StageMemory& memory, std::span<const TokenId> text,
                                       const StageTask& task) const {
  observe(memory, text.subspan(static_cast<std::size_t>(memory.seen)), {});
  if (task.most < 1) return {};
  DraftTree tree(text.back());
  DraftJob job{.state = memory.state.get(), .plan = {task.most, task.most, 1}, .tree = &tree};
  if (traits_.same_tokens) {
    job.random = task.job->random;
    job.position = task.job->position;
    job.sampler = task.job->sampler;
    job.changes = task.job->changes;
    job.penalties = task.job->penalties;
    memory.state->prompt_length = task.job->state->prompt_length;
    job.races = task.races;
  }
  drafter_->propose({&job, 1});
  std::vector<TokenId> guesses;
  for (NodeId node = 0; static_cast<int>(guesses.size()) < task.most;) {
    NodeId best = -1;
    for (const NodeId child : tree.children(node)) {
      const bool better = best < 0 || tree[child].log_p > tree[best].log_p;
      if (better && tree[child].kind == NodeKind::candidate) best = child;
    }
    if (best < 0) break;
    guesses.push_back(tree[node = best].token);
  }
  return guesses;
}

void ModelStage::note(StageMemory& memory, const View& features) const {
  if (!reads_features()) return;
  expects(memory.rows + features.rows <= traits_.most_rows, "as many rows as a draft has");
  backend_.copy(features, memory.features.view().row_range(memory.rows, features.rows));
  memory.rows += features.rows;
}

void ModelStage::cut(StageMemory& memory, int rows) const {
  memory.rows = std::clamp(rows + 1 - memory.seen, 0, memory.rows);
}

/// The first token of a text was produced by no row.
void ModelStage::observe(StageMemory& memory, std::span<const TokenId> news,
                         const View& features) const {
  if (news.empty()) return;
  drafter_->observe(*memory.state, {.tokens = news,
                                    .first_position = memory.seen,
                                    .features = features,
                                    .first_has_row = memory.seen > 0});
  memory.seen += static_cast<int>(news.size());
}

}  // namespace talon
