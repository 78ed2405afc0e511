#include "learn/replay.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/half.h"
#include "draft/registry.h"
#include "learn/served_recorder.h"

namespace talon {
namespace {

constexpr int kWholeTree = 1 << 10;  // as large as the drafter's own options say
constexpr std::size_t kSpare = 512;  // positions of a head's cache beside those of the text

/// Lets every level be drafted.
class WholeTrees : public PolicyState {
 public:
  TreePlan plan(const PlanContext&) override {
    return {kWholeTree, kWholeTree, kWholeTree, TreeLevels::none()};
  }
};

/// Adds texts in the order of `order` until their answers have so many tokens.
ReplayTexts choose(const Dataset& data, const std::vector<std::size_t>& order, long tokens) {
  ReplayTexts texts{&data, {}};
  long chosen = 0;
  for (const std::size_t index : order) {
    if (chosen >= tokens) break;
    texts.chosen.push_back(index);
    chosen += data.size_of(index).response_tokens();
  }
  return texts;
}

}  // namespace

ReplayTexts newest_texts(const Dataset& data, long tokens) {
  std::vector<std::size_t> order;
  for (std::size_t i = data.size(); i > 0; --i) order.push_back(i - 1);
  return choose(data, order, tokens);
}

ReplayTexts spread_texts(const Dataset& data, long tokens) {
  std::vector<std::size_t> order = data.shuffled(1);
  std::ranges::stable_partition(
      order, [&](std::size_t index) { return data.size_of(index).temperature == 0; });
  return choose(data, order, tokens);
}

/// The one that is being replayed.
struct Replay::Text {
  Conversation conversation;
  ServedSource source;
  SamplerOptions sampler;
  LogitChanges changes;
  bool races = false;
  std::unique_ptr<DraftState> state;
  std::vector<int> taps;  // of the recorded ones, those that the drafter reads
  int root = 0;           // place of the last token that was observed
};

Replay::Replay(const Model& model, const std::string& drafter, ReplayTexts texts)
    : model_(model),
      drafter_(make_drafter(
          drafter, {.target = &model, .cache_positions = ServedRecorder::kMostTokens + kSpare})),
      texts_(std::move(texts)) {
  const auto taps = static_cast<int>(drafter_->taps().size());
  features_ = model.backend->allocate(static_cast<int>(ServedRecorder::kMostTokens),
                                      std::max(taps, 1) * model.config.hidden);
}

Replay::~Replay() = default;

double Replay::tau() const {
  return rounds_ == 0 ? 1 : static_cast<double>(tokens_) / static_cast<double>(rounds_);
}

bool Replay::step() {
  if (!text_ && !open_next()) return false;
  draft();
  const auto last = static_cast<int>(text_->conversation.tokens.size()) - 1;
  if (text_->root >= last) text_.reset();
  return true;
}

bool Replay::open_next() {
  if (next_ == texts_.chosen.size()) return false;
  auto text = std::make_unique<Text>();
  text->conversation = texts_.data->read(texts_.chosen[next_++]);
  Conversation& conversation = text->conversation;
  const std::size_t most = ServedRecorder::kMostTokens;
  if (conversation.tokens.size() > most) conversation.tokens = conversation.tokens.first(most);
  const std::vector<int>& recorded = texts_.data->info().taps;
  for (const FeatureTap& tap : drafter_->taps()) {
    const auto found = std::ranges::find(recorded, tap.layer);
    if (found == recorded.end()) {
      fail("replay: expected texts with the vectors of layer {}, found those of {}", tap.layer,
           fmt::join(recorded, ", "));
    }
    text->taps.push_back(static_cast<int>(found - recorded.begin()));
  }
  if (const auto source = ServedSource::parse(conversation.source)) {
    text->source = *source;
    text->sampler.temperature = conversation.temperature;
    text->changes = LogitChanges(
        SamplerOptions{.logit_bias = source->changes.logit_bias, .banned = source->changes.banned});
    text->races = source->races;
  }
  text->state = drafter_->start();
  text_ = std::move(text);
  const int begin = std::min(text_->conversation.response_begin,
                             static_cast<int>(text_->conversation.tokens.size()) - 1);
  observe(0, begin + 1);
  return true;
}

/// Shows the drafter tokens `first` to first + count - 1. The row of a token is that of the one
/// before it.
void Replay::observe(int first, int count) {
  const int hidden = model_.config.hidden;
  const int first_row = std::max(first - 1, 0), rows = first + count - 1 - first_row;
  const std::size_t width = text_->taps.size() * static_cast<std::size_t>(hidden);
  std::vector<float> values(static_cast<std::size_t>(rows) * width);
  std::vector<std::uint16_t> halves(static_cast<std::size_t>(hidden));
  float* to = values.data();
  for (int row = first_row; row < first_row + rows; ++row) {
    for (const int tap : text_->taps) {
      text_->conversation.copy_row(row, static_cast<std::size_t>(tap * hidden), halves);
      to = std::ranges::transform(halves, to, half_to_float).out;
    }
  }
  const View view = width > 0 ? features_.rows(rows) : View{};
  if (width > 0 && rows > 0) model_.backend->upload(values, view);
  const auto tokens = text_->conversation.tokens.subspan(static_cast<std::size_t>(first),
                                                         static_cast<std::size_t>(count));
  drafter_->observe(
      *text_->state,
      {.tokens = tokens, .first_position = first, .features = view, .first_has_row = first > 0});
  text_->root = first + count - 1;
}

void Replay::draft() {
  const std::span<const TokenId> tokens = text_->conversation.tokens;
  const int root = text_->root, left = static_cast<int>(tokens.size()) - 1 - root;
  if (left == 0) return;  // an answer of one token
  WholeTrees policy;
  DraftTree tree(tokens[static_cast<std::size_t>(root)]);
  const PositionRandom random(text_->source.seed, text_->source.choice);
  DraftJob job{text_->state.get(),        &policy, policy.plan({}), &tree, &random,
               text_->source.first + root};
  job.sampler = &text_->sampler;
  job.changes = &text_->changes;
  job.races = text_->races;
  drafter_->propose(std::span(&job, 1));
  const int accepted =
      tree.for_each_trial(tokens.subspan(static_cast<std::size_t>(root) + 1), [](NodeId, bool) {});
  const int emitted = std::min(accepted + 1, left);
  ++rounds_;
  tokens_ += emitted;
  observe(root + 1, emitted);
}

}  // namespace talon
