#include "c/speculator/speculator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "c/defaults.h"
#include "c/forms.h"
#include "c/head_warnings.h"
#include "c/request.h"
#include "c/structs.h"
#include "draft/registry.h"
#include "engine/constraint/constrained_tree.h"
#include "runtime/heads/auto_drafter.h"
#include "runtime/method.h"
#include "verify/drawn_tokens.h"

namespace talon {
namespace {

constexpr std::size_t kObservedRows = 256;  // of features at once

/// Rows that the caller's model has computed.
class GivenRows : public TargetRows {
 public:
  GivenRows(const float* logits, std::size_t stride, int vocabulary)
      : logits_(logits), stride_(stride), vocabulary_(static_cast<std::size_t>(vocabulary)) {}

  std::span<const float> logits(NodeId node) override {
    return {logits_ + static_cast<std::size_t>(node) * stride_, vocabulary_};
  }
  TokenId argmax(NodeId node) override {
    const auto row = logits(node);
    std::size_t best = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (std::isnan(row[i])) fail("logits of node {}: expected numbers, found NaN", node);
      if (row[i] > row[best]) best = i;
    }
    if (!std::isfinite(row[best])) {
      fail("logits of node {}: expected a finite largest number, found {}", node, row[best]);
    }
    return static_cast<TokenId>(best);
  }
  TokenId race(NodeId node, const RaceDraw& draw) override {
    return draw_by_race(logits(node), draw);
  }

 private:
  const float* logits_;
  std::size_t stride_, vocabulary_;
};

int vocabulary_of(const talon_speculator_options& options) {
  const int of_model =
      options.model ? options.model->shared->loaded.model.config.vocabulary : options.vocabulary;
  require(options.vocabulary == 0 || options.vocabulary == of_model, "options->vocabulary",
          fmt::format("0 or the model's, {}", of_model).c_str(), options.vocabulary);
  require(of_model >= 1, "options->vocabulary", "at least 1, or a model", of_model);
  return of_model;
}

/// Throws UsageError for a part of `drafter` that has a head.
void require_no_head(const std::string& drafter) {
  for (const std::string_view part : split_drafters(drafter)) {
    const DrafterEntry* entry = find_row(drafters(), OptionText(part).name);
    if (!entry || !entry->needs_head) continue;
    throw UsageError(
        fmt::format("options->model: expected the model whose head {} is, found NULL", part));
  }
}

/// What comes up in a turn, told after it, also where something is thrown.
struct LateWarnings {
  ~LateWarnings() {
    for (const std::string& warning : all) log(TALON_LOG_WARNING, warning);
  }
  const Log& log;
  std::vector<std::string> all = {};
};

/// Makes the drafter, and returns its name.
std::string open_drafter(const talon_speculator_options& options, const MethodText& method,
                         Speculator& made, std::vector<std::string>& warnings) {
  SharedModel* const model = made.model.get();
  DrafterContext context;
  if (model) {
    context.target = &model->loaded.model;
    context.heads = find_heads(*model, options.head_folders, options.head_folder_count, warnings);
  }
  const OutputKind output = model ? output_kind(model->loaded.model.config) : OutputKind::text;
  constexpr std::string_view kArgument = "options->method";
  const std::string name =
      naming(kArgument, [&] { return resolve_drafter(method.drafter, context.heads, output); });
  if (!model) require_no_head(name);
  made.drafter = naming(kArgument, [&] { return make_drafter(name, context); });
  if (model) warn_of_heads(name, *model, warnings);
  return name;
}

}  // namespace

int Speculator::feature_width() const {
  return model ? static_cast<int>(layers.size()) * model->loaded.model.config.hidden : 0;
}

Speculator::~Speculator() {
  const TurnToFree turn(turns());
  drafter.reset();
}

std::shared_ptr<Speculator> open_speculator(const talon_speculator_options& options) {
  require(options.unused == 0, "options->unused", "0", options.unused);
  const MethodText method = naming(
      "options->method", [&] { return parse_method(options.method ? options.method : "suffix"); });
  require(method.policy.empty(), "options->method",
          "no policy: talon_sequence_propose() says how much to draft", method.policy);
  auto made = std::make_shared<Speculator>();
  made->vocabulary = vocabulary_of(options);
  if (options.model) made->model = options.model->shared;
  made->log = {options.log, options.log_user};
  made->rule = naming("options->method", [&] {
    return make_verifier(method.verify.empty() ? "follow" : method.verify, {});
  });
  std::string name;
  {
    LateWarnings warnings{made->log};
    const Turn turn(made->turns());
    name = open_drafter(options, method, *made, warnings.all);
    made->traits = made->drafter->traits();
    for (const FeatureTap& tap : made->traits.taps) made->layers.push_back(tap.layer);
  }
  if (made->traits.reads_cache) {
    throw UsageError(fmt::format(
        "options->method: expected a drafter that reads no keys and values of the model, which "
        "only engines have, found {}",
        name));
  }
  made->log(TALON_LOG_INFO, fmt::format("drafter {}", name));
  return made;
}

}  // namespace talon

using namespace talon;

talon_sequence::talon_sequence(std::shared_ptr<Speculator> speculator, const talon_request& request)
    : by_(std::move(speculator)),
      sampler_(checked_sampler_of(request, by_->vocabulary), by_->vocabulary),
      random_(request.seed, request.choice),
      tokens_(request.prompt, request.prompt + request.prompt_count),
      prompt_length_(static_cast<int>(tokens_.size())),
      tree_(tokens_.back()) {
  require(!form_of(request), "request->form", "0: only engines answer in a form", request.form);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i] >= 0 && tokens_[i] < by_->vocabulary) continue;
    throw UsageError(fmt::format("request->prompt[{}]: expected a token id from 0 to {}, found {}",
                                 i, by_->vocabulary - 1, tokens_[i]));
  }
  const Turn turn(by_->turns());
  state_ = by_->drafter->start();
  state_->prompt_length = prompt_length_;
  if (rows_wanted() == 0) observe_text();
}

talon_sequence::~talon_sequence() {
  const TurnToFree turn(by_->turns());
  state_.reset();
}

/// Rows of features that the tokens have which the drafter has not seen.
std::size_t talon_sequence::rows_wanted() const {
  const std::size_t unseen = tokens_.size() - observed_;
  return by_->layers.empty() ? 0 : unseen - (observed_ == 0 ? 1 : 0);
}

/// Tells the drafter of a verdict, which does not depend on it: one that throws is not asked again.
template <typename Work>
void talon_sequence::tell_drafter(Work&& work) {
  if (!state_) return;
  try {
    work();
  } catch (const std::exception& error) {
    drop_drafter(error.what());
  } catch (...) {
    drop_drafter("it threw no std::exception");
  }
}

void talon_sequence::drop_drafter(const char* why) noexcept {
  state_.reset();
  try {
    problem_ = fmt::format("the drafter failed, and its sequence goes on without drafts: {}", why);
  } catch (const std::exception&) {  // no verdict fails for want of a note
  }
}

/// Tokens that a draft may add to those that were observed: heads go as far as the context of their
/// model.
std::size_t talon_sequence::room_for_drafts() const {
  if (by_->layers.empty()) return std::numeric_limits<std::size_t>::max();
  const auto context = static_cast<std::size_t>(by_->model->loaded.model.config.context);
  return context - std::min(context, observed_);
}

void talon_sequence::observe_text() {
  CommittedTokens committed;
  committed.tokens = std::span(tokens_).subspan(observed_);
  committed.first_position = static_cast<int>(observed_);
  committed.first_has_row = observed_ > 0;
  by_->drafter->observe(*state_, committed);
  observed_ = tokens_.size();
}

void talon_sequence::observe(const float* features, std::size_t rows) {
  const std::size_t wanted = rows_wanted();
  require(rows == wanted, "rows", fmt::format("{}", wanted).c_str(), rows);
  if (rows == 0) return;
  const auto width = static_cast<std::size_t>(by_->feature_width());
  std::span<const float> left(&require_pointer(features, "features", "an array"), rows * width);
  const Turn turn(by_->turns());
  Backend& backend = *by_->model->loaded.backend;
  const Buffer buffer =
      backend.allocate(static_cast<int>(std::min(rows, kObservedRows)), static_cast<int>(width));
  while (!left.empty()) {
    const std::size_t count = std::min(left.size() / width, kObservedRows);
    CommittedTokens committed;
    committed.first_position = static_cast<int>(observed_);
    committed.first_has_row = observed_ > 0;
    committed.tokens =
        std::span(tokens_).subspan(observed_, count + (committed.first_has_row ? 0 : 1));
    committed.features = buffer.rows(static_cast<int>(count));
    if (state_ && committed.tokens.size() <= room_for_drafts()) {
      backend.upload(left.first(count * width), committed.features);
      by_->drafter->observe(*state_, committed);
    }
    observed_ += committed.tokens.size();
    left = left.subspan(count * width);
  }
}

talon_tree talon_sequence::propose(int most_nodes, int most_levels) {
  require(most_nodes >= 0 && most_nodes <= kMostTreeNodes, "most_nodes",
          fmt::format("0 to {}", kMostTreeNodes).c_str(), most_nodes);
  require(most_levels >= 0, "most_levels", "0 or more", most_levels);
  if (const std::size_t wanted = rows_wanted(); wanted > 0) {
    throw UsageError(
        fmt::format("sequence: expected talon_sequence_observe() with {} rows first", wanted));
  }
  proposed_ = false;  // until the tree is shown
  tree_.reset(tokens_.back());
  const auto levels =
      static_cast<int>(std::min(static_cast<std::size_t>(most_levels), room_for_drafts()));
  if (state_ && most_nodes > 0 && levels > 0) {
    DraftJob job;
    job.state = state_.get();
    job.plan = {most_nodes, levels, most_nodes, TreeLevels::none()};
    job.tree = &tree_;
    job.random = &random_;
    job.position = static_cast<int>(tokens_.size()) - 1;
    job.sampler = &sampler_.options();
    job.changes = &sampler_.changes();
    job.penalties = &sampler_.penalties_of({tokens_, {}, prompt_length_});
    job.races = by_->rule->drafts_may_know_noise();
    const Turn turn(by_->turns());
    by_->drafter->propose({&job, 1});
    drop_unknown_tokens(tree_, by_->vocabulary);
    if (tree_.draft_nodes() > most_nodes) tree_.prune(most_nodes);
  }
  shown_tokens_ = tree_.tokens();
  shown_parents_ = tree_.parents();
  shown_log_p_ = tree_.log_ps();
  shown_probes_.clear();
  for (const DraftTree::Node& node : tree_.nodes)
    shown_probes_.push_back(node.kind == NodeKind::probe ? 1 : 0);
  proposed_ = true;
  talon_tree shown = {};
  shown.tokens = shown_tokens_.data();
  shown.parents = shown_parents_.data();
  shown.log_p = shown_log_p_.data();
  shown.probes = shown_probes_.data();
  shown.node_count = shown_tokens_.size();
  return shown;
}

talon_verdict talon_sequence::verify(const float* logits, std::size_t stride) {
  require(proposed_, "sequence", "talon_sequence_propose() first", "none");
  require_pointer(logits, "logits", "an array");
  require(stride >= static_cast<std::size_t>(by_->vocabulary), "stride",
          fmt::format("at least {}, the vocabulary", by_->vocabulary).c_str(), stride);
  GivenRows rows(logits, stride, by_->vocabulary);
  VerifyInput input;
  input.tree = &tree_;
  input.rows = &rows;
  input.committed = tokens_;
  input.prompt_length = prompt_length_;
  input.distortion = distortion_;
  input.sampler = &sampler_;
  input.random = &random_;
  std::vector<TokenId> drawn(shown_tokens_.size(), -1);
  input.drawn = &drawn;
  {
    const Turn turn(by_->turns());
    commit(input);
  }
  if (!problem_.empty()) by_->log(TALON_LOG_WARNING, std::exchange(problem_, {}));
  talon_verdict shown = {};
  shown.path = verdict_.path.data();
  shown.path_count = verdict_.path.size();
  shown.next = verdict_.next;
  return shown;
}

/// Makes the verdict and the text that follows from it, and tells the drafter of both.
void talon_sequence::commit(const VerifyInput& input) {
  verdict_ = by_->rule->verify(input);
  proposed_ = false;
  distortion_ += verdict_.distortion;
  if (by_->traits.sees_draws) {
    tell_drafter([&] {
      by_->drafter->saw(*state_, tree_,
                        {[&](NodeId node) { return drawn_token(input, node); },
                         [&](NodeId node, std::span<const TokenId> others) {
                           return drawn_without(input, node, others);
                         }});
    });
  }
  for (const NodeId node : std::span(verdict_.path).subspan(1))
    tokens_.push_back(tree_[node].token);
  tokens_.push_back(verdict_.next);
  if (by_->layers.empty()) tell_drafter([&] { observe_text(); });
}

talon_status talon_speculator_new(const talon_speculator_options* options,
                                  talon_speculator** speculator) {
  return guarded(__func__, [&] {
    auto*& out = require_pointer(speculator, "speculator", "an address to fill");
    out = nullptr;
    out = new talon_speculator{
        open_speculator(read_struct(options, default_speculator_options(), "options"))};
  });
}

void talon_speculator_free(talon_speculator* speculator) { delete speculator; }

int32_t talon_speculator_feature_width(const talon_speculator* speculator) {
  return speculator ? speculator->shared->feature_width() : 0;
}

talon_status talon_speculator_layers(const talon_speculator* speculator, const int32_t** layers,
                                     size_t* count) {
  return guarded(__func__, [&] {
    const Speculator& by = *require_pointer(speculator, "speculator", "a speculator").shared;
    require_pointer(layers, "layers", "an address to fill") = by.layers.data();
    require_pointer(count, "count", "an address to fill") = by.layers.size();
  });
}

talon_status talon_sequence_new(talon_speculator* speculator, const talon_request* request,
                                talon_sequence** sequence) {
  return guarded(__func__, [&] {
    auto*& out = require_pointer(sequence, "sequence", "an address to fill");
    out = nullptr;
    const auto& by = require_pointer(speculator, "speculator", "a speculator").shared;
    out = new talon_sequence(by, read_request(request));
  });
}

void talon_sequence_free(talon_sequence* sequence) { delete sequence; }

talon_status talon_sequence_propose(talon_sequence* sequence, int32_t most_nodes,
                                    int32_t most_levels, talon_tree* tree) {
  return guarded(__func__, [&] {
    auto& of = require_pointer(sequence, "sequence", "a sequence");
    check_size<talon_tree>(require_pointer(tree, "tree", "a struct to fill").size, "tree");
    write_struct(tree, of.propose(most_nodes, most_levels), "tree");
  });
}

talon_status talon_sequence_verify(talon_sequence* sequence, const float* logits, size_t stride,
                                   talon_verdict* verdict) {
  return guarded(__func__, [&] {
    auto& of = require_pointer(sequence, "sequence", "a sequence");
    check_size<talon_verdict>(require_pointer(verdict, "verdict", "a struct to fill").size,
                              "verdict");
    write_struct(verdict, of.verify(logits, stride), "verdict");
  });
}

talon_status talon_sequence_observe(talon_sequence* sequence, const float* features, size_t rows) {
  return guarded(__func__, [&] {
    require_pointer(sequence, "sequence", "a sequence").observe(features, rows);
  });
}
