#include "draft/model/model_drafter.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "backend/index_list.h"
#include "core/error.h"
#include "draft/draft_cache.h"
#include "draft/drawn_law.h"
#include "draft/model/model_stage.h"
#include "draft/output_head.h"
#include "model/target.h"

namespace talon {
namespace {

constexpr int kLeastPromptRows = 128;  // of a pass: how much of a prompt is read at once
constexpr int kMostWaiting = 16;       // tokens of a sequence that are read together with others'

struct ModelState : DraftState {
  explicit ModelState(KvSequence sequence) : cache(std::move(sequence)) {}

  KvSequence cache;           // holds the beginning of the text, and drafts that may become text
  std::vector<TokenId> text;  // in the model's own tokens
  bool has_begun = false;
  StageMemory stage;
};

/// A tree while it grows, with its rows in flight behind the text.
struct Growing {
  DraftJob* job = nullptr;
  ModelState* state = nullptr;
  DraftPlace place;  // where the children of its newest rows stand
  std::unique_ptr<TreeGrowth> growth;
  std::vector<TokenId> tokens;   // of the rows in flight, in the model's own
  std::vector<NodeId> parents;   // of the rows in flight; -1: the text
  int newest = 0;                // first row of the newest level
  int levels = 0;                // at most
  int outputs = 1;               // rows whose children come next
  std::vector<TokenId> guessed;  // by the stage, in the model's own
  // Of a chain that is drawn:
  bool draws = false;
  NodeId end = 0;             // its last node
  Law<double> after;          // what its next token is drawn from
  std::vector<float> logits;  // of that law
};

class ModelDrafter : public Drafter {
 public:
  ModelDrafter(std::shared_ptr<const DraftModel> draft, const Model& target,
               ModelDrafterOptions options)
      : shared_(std::move(draft)),
        draft_(*shared_),
        backend_(*target.backend),
        options_(std::move(options)),
        target_rows_(target.config.vocabulary),
        context_(draft_.model.config.context),
        cache_(backend_, draft_cache_shape(kv_shape(draft_.model.config, 1),
                                           options_.cache_positions, context_)),
        network_(draft_.model, cache_, std::max(kLeastPromptRows, rows_in_flight()), stage_taps()),
        output_(backend_, draft_.model.output_weight(), draft_.vocabulary.target_of,
                options_.coupling),
        logits_(backend_.allocate(OutputHead::kMostRows, draft_.model.config.vocabulary)),
        rows_(backend_) {
    if (!options_.stage) return;
    expects(is_chain(), "a stage guesses a chain");
    const StageTraits wanted{network_.feature_width(), options_.shape.levels,
                             draft_.vocabulary.same};
    stage_ = std::make_unique<ModelStage>(std::move(options_.stage), backend_, wanted);
  }

  DrafterTraits traits() const override {
    return {.extends_trees = !options_.draws,
            .draws = options_.draws,
            .pass_bytes = draft_.model.weight_bytes,
            .weight_files = {draft_.model.source}};
  }
  std::unique_ptr<DraftState> start() override {
    return std::make_unique<ModelState>(cache_.start({}, /*reuse=*/false));
  }
  void observe(DraftState& state, const CommittedTokens& committed) override {
    auto& text = static_cast<ModelState&>(state).text;
    for (const TokenId token : committed.tokens) draft_.vocabulary.append(token, text);
  }
  long lost_rows() const override { return lost_rows_; }

  void propose(std::span<DraftJob> jobs) override {
    std::vector<Growing> wanted;
    for (DraftJob& job : jobs) {
      auto& state = static_cast<ModelState&>(*job.state);
      const bool has_room = job.plan.levels > 0 && job.plan.nodes > job.tree->draft_nodes();
      const bool fits = !state.text.empty() && std::ssize(state.text) < context_;
      if (!has_room || !fits) continue;
      follow_text(state);
      const int before_newest = static_cast<int>(waiting(state).size()) - 1;
      if (job.policy && !job.policy->start(*job.tree, before_newest)) continue;
      job.ran_passes = true;
      wanted.push_back(begin(job, state));
    }
    const int outputs = is_staged() ? options_.shape.levels : options_.shape.width;
    const auto most = static_cast<std::size_t>(
        std::max(1, std::min(OutputHead::kMostRows / outputs,
                             network_.max_rows() / std::max(newest_rows(), rows_in_flight()))));
    for (std::size_t first = 0; first < wanted.size(); first += most) {
      const auto end = std::min(first + most, wanted.size());
      propose_batch({std::make_move_iterator(wanted.begin() + static_cast<std::ptrdiff_t>(first)),
                     std::make_move_iterator(wanted.begin() + static_cast<std::ptrdiff_t>(end))});
    }
  }

 private:
  bool is_chain() const { return options_.shape.width == 1; }
  bool is_staged() const { return stage_ != nullptr; }
  std::vector<FeatureTap> stage_taps() const {
    return options_.stage ? options_.stage->taps() : std::vector<FeatureTap>();
  }
  int rows_in_flight() const { return options_.shape.width * options_.shape.levels; }
  /// Of one text, at most: what it has left to read, and what the stage guesses after it.
  int newest_rows() const { return kMostWaiting + (is_staged() ? options_.shape.levels - 1 : 0); }

  Growing begin(DraftJob& job, ModelState& state) const {
    Growing tree;
    tree.job = &job;
    tree.state = &state;
    tree.place = first_place(job, options_.coupling);
    tree.draws = options_.draws && !job.races && job.sampler && job.sampler->temperature > 0;
    DynamicTreeShape shape = options_.shape;
    const int room = context_ - static_cast<int>(state.text.size());
    shape.levels = std::max(1, std::min({shape.levels, job.plan.levels, room}));
    shape.nodes = std::min(shape.nodes, job.plan.nodes - job.tree->draft_nodes());
    shape.width = std::max(1, std::min(shape.width, job.plan.width));
    tree.levels = shape.levels;
    tree.growth = grow_dynamic_tree(shape, {job.policy, job.plan.ask_after}, *job.tree);
    return tree;
  }

  void propose_batch(std::vector<Growing> trees) {
    std::erase_if(trees, [&](Growing& tree) { return !read_on(*tree.state); });
    if (trees.empty()) return;
    if (is_staged() && stage_->reads_features()) read_before_guesses(trees);
    read_newest(trees);
    if (is_staged()) {
      take_guesses(trees);
      if (!trees.empty()) run_level(trees);
    }
    while (!trees.empty()) {
      std::vector<DraftPlace> places;
      for (const Growing& tree : trees) {
        places.resize(places.size() + static_cast<std::size_t>(tree.outputs), tree.place);
      }
      read_laws(trees);
      const View logits = logits_.rows(static_cast<int>(places.size()));
      RowChildren children;
      if (!std::ranges::all_of(trees, &Growing::draws)) {
        children = output_.best(logits, children_wanted(), places);
        drop_foreign(children);
      }
      add_level(trees, children);
      if (!trees.empty()) run_level(trees);
    }
  }

  /// Tokens that the target does not have are among the likeliest now and then.
  int children_wanted() const { return options_.shape.children + (draft_.vocabulary.same ? 0 : 2); }
  /// Puts those of each row that the target has first, in their order.
  void drop_foreign(RowChildren& children) const {
    if (draft_.vocabulary.same) return;
    const auto count = static_cast<std::size_t>(children.count);
    for (std::size_t begin = 0; begin < children.token.size(); begin += count) {
      std::size_t kept = begin;
      for (std::size_t i = begin; i < begin + count; ++i) {
        if (children.token[i] >= target_rows_) continue;
        std::swap(children.token[kept], children.token[i]);
        std::swap(children.log_p[kept++], children.log_p[i]);
      }
      for (; kept < begin + count; ++kept) children.log_p[kept] = -INFINITY;
    }
  }

  /// Keeps in the cache what is of the text, its newest token left out.
  void follow_text(ModelState& state) {
    if (!std::exchange(state.has_begun, true)) begin_text(state);
    const auto cached = state.cache.tokens();
    const auto [stale, news] =
        std::mismatch(cached.begin(), cached.end(), state.text.begin(), state.text.end());
    const auto known = std::min(stale - cached.begin(), std::ssize(state.text) - 1);
    if (known < std::ssize(cached)) state.cache.truncate(static_cast<int>(known));
    if (is_staged()) stage_->follow(state.stage, state.text, state.cache.length());
  }

  /// What earlier texts begin with is not run again, as far as the stage can do without its rows.
  void begin_text(ModelState& state) {
    const TextOwner& owner = state.owner;
    const int most = is_staged() ? stage_->most_known(state.text, owner) : INT32_MAX;
    const TextRoot root{owner.tenant, owner.reuses ? -1 : -2 - own_roots_++};
    state.cache = cache_.start(state.text, owner.reuses, root, most);
    if (is_staged()) stage_->begin(state.stage, state.text, state.cache.length(), owner);
  }

  /// Reads the text that is new, but for its last few tokens. False without room for it.
  bool read_on(ModelState& state) {
    const int most = static_cast<int>(waiting(state).size()) + rows_in_flight();
    if (!state.cache.reserve(most, network_.max_rows())) return give_up(state);
    while (waiting(state).size() > kMostWaiting) {
      const int part = std::min(static_cast<int>(waiting(state).size()) - 1, network_.max_rows());
      if (!state.cache.reserve(part)) return give_up(state);
      ModelState* const only = &state;
      read_text({&only, 1}, part);
    }
    const int newest = static_cast<int>(waiting(state).size()) + rows_in_flight();
    return state.cache.reserve(newest) || give_up(state);
  }

  /// Reads text that waits, of each at most `most` tokens and never the newest.
  void read_text(std::span<ModelState* const> states, int most) {
    std::vector<SequenceRows> batch;
    for (ModelState* state : states) {
      const auto news = waiting(*state);
      const auto part = news.first(std::min(news.size() - 1, static_cast<std::size_t>(most)));
      batch.push_back({&state->cache, part, {}, SequenceRows::Logits::none, /*kept=*/true});
    }
    const ForwardResult result = network_.forward(batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      ModelState& state = *states[i];
      const View features = features_of(result, i, batch[i].tokens.size());
      if (is_staged()) stage_->read(state.stage, state.text, state.cache.length(), features);
      keep(state.cache, batch[i].tokens);
    }
  }
  /// A stage with features guesses behind rows that were run.
  void read_before_guesses(std::span<const Growing> trees) {
    std::vector<ModelState*> states;
    for (const Growing& tree : trees) {
      if (waiting(*tree.state).size() > 1) states.push_back(tree.state);
    }
    if (!states.empty()) read_text(states, kMostWaiting);
  }
  static View features_of(const ForwardResult& result, std::size_t part, std::size_t rows) {
    if (!result.features) return {};
    return result.features.row_range(result.first_row[part], static_cast<int>(rows));
  }

  static std::span<const TokenId> waiting(const ModelState& state) {
    return std::span(state.text).subspan(static_cast<std::size_t>(state.cache.length()));
  }
  static void keep(KvSequence& cache, std::span<const TokenId> tokens) {
    std::vector<NodeId> all(tokens.size());
    std::iota(all.begin(), all.end(), 0);
    cache.keep(all, tokens);
  }
  /// Gives the room to others.
  bool give_up(ModelState& state) {
    lost_rows_ += state.cache.length();
    state.cache.truncate(0);
    return false;
  }

  /// Reads what is left of the texts, and what the stage guesses after them: the last row of a text
  /// and those of the guesses say what follows.
  void read_newest(std::span<Growing> trees) {
    std::vector<std::vector<TokenId>> texts;
    std::vector<SequenceRows> batch;
    for (Growing& tree : trees) {
      ModelState& state = *tree.state;
      if (is_staged()) {
        tree.guessed =
            stage_->guess(state.stage, state.text, {tree.job, tree.place.races(), tree.levels - 1});
      }
      const auto news = waiting(*tree.state);
      auto& text = texts.emplace_back(news.begin(), news.end());
      text.insert(text.end(), tree.guessed.begin(), tree.guessed.end());
      const bool guessed = !tree.guessed.empty();
      batch.push_back({&tree.state->cache,
                       {},
                       {},
                       guessed ? SequenceRows::Logits::all : SequenceRows::Logits::last,
                       /*kept=*/true});
    }
    for (std::size_t i = 0; i < texts.size(); ++i) batch[i].tokens = texts[i];
    const ForwardResult result = network_.forward(batch);
    std::vector<std::int32_t> wanted;
    for (std::size_t i = 0; i < trees.size(); ++i) {
      const auto guesses = static_cast<int>(trees[i].guessed.size());
      const int skipped = guesses > 0 ? static_cast<int>(texts[i].size()) - guesses - 1 : 0;
      for (int row = 0; row <= guesses; ++row) {
        wanted.push_back(result.first_logits_row[i] + skipped + row);
      }
    }
    backend_.gather_rows(result.logits, rows_.put(wanted),
                         logits_.rows(static_cast<int>(wanted.size())));
    for (std::size_t i = 0; i < trees.size(); ++i) {
      if (!is_staged()) keep(trees[i].state->cache, texts[i]);
      if (is_staged()) stage_->note(trees[i].state->stage, features_of(result, i, texts[i].size()));
    }
  }

  /// The stage's guesses stay as far as the model itself would have drafted them; each gives a
  /// level without a pass.
  void take_guesses(std::vector<Growing>& trees) {
    std::vector<DraftPlace> places;
    for (const Growing& tree : trees) {
      for (std::size_t i = 0; i <= tree.guessed.size(); ++i) {
        places.push_back(tree.place.after(static_cast<int>(i)));
      }
    }
    RowChildren children =
        output_.best(logits_.rows(static_cast<int>(places.size())), children_wanted(), places);
    drop_foreign(children);
    int first = 0;
    std::erase_if(trees, [&](Growing& tree) {
      const int rows = static_cast<int>(tree.guessed.size()) + 1;
      const int begin = std::exchange(first, first + rows);
      std::size_t right = 0;
      bool goes_on = grow(tree, children, begin);
      while (goes_on && right < tree.guessed.size() && tree.tokens.back() == tree.guessed[right]) {
        ++right;
        goes_on = grow(tree, children, begin + static_cast<int>(right));
      }
      const auto news = waiting(*tree.state);
      std::vector<TokenId> kept(news.begin(), news.end());
      kept.insert(kept.end(), tree.guessed.begin(),
                  tree.guessed.begin() + static_cast<std::ptrdiff_t>(right));
      keep(tree.state->cache, kept);
      stage_->cut(tree.state->stage, tree.state->cache.length());
      return !goes_on;
    });
  }

  void add_level(std::vector<Growing>& trees, const RowChildren& children) {
    int first = 0;
    std::erase_if(trees, [&](Growing& tree) {
      return !grow(tree, children, std::exchange(first, first + tree.outputs));
    });
  }

  /// Of chains that are drawn, whose logits lie one row after the other; in one wait.
  void read_laws(std::span<Growing> trees) {
    std::vector<Fence> fences;
    int row = 0;
    for (Growing& tree : trees) {
      const View logits = logits_.view().row_range(std::exchange(row, row + tree.outputs), 1);
      if (!tree.draws) continue;
      tree.logits.resize(static_cast<std::size_t>(logits.cols));
      fences.push_back(backend_.download_async(logits, tree.logits));
    }
    wait_for_all(fences);
    for (Growing& tree : trees) {
      if (!tree.draws) continue;
      const int answered = tree.job->answered() + tree.job->tree->depth(tree.end);
      tree.after = drawn_law(tree.logits, draft_.vocabulary.target_of, target_rows_,
                             {*tree.job->sampler, answered});
    }
  }
  /// Draws a chain's next token; false if it is complete.
  bool draw(Growing& tree) {
    const DraftJob& job = *tree.job;
    const int depth = job.tree->depth(tree.end);
    tree.end = job.tree->draw_children(tree.end, std::move(tree.after), 1, [&](int) {
      return job.random->uniform(static_cast<std::uint64_t>(job.position), RandomUse::draft,
                                 static_cast<std::uint32_t>(depth));
    });
    const float log_p = (*job.tree)[tree.end].log_p;
    const LevelPolicy policy{job.policy, job.plan.ask_after};
    if (depth + 1 >= tree.levels || job.tree->draft_nodes() >= job.plan.nodes) return false;
    if (policy.expand(depth + 1, {&log_p, 1}) == 0) return false;
    tree.newest = static_cast<int>(tree.tokens.size());
    tree.tokens.push_back(own_token((*job.tree)[tree.end].token));
    tree.place = tree.place.after(1);
    return true;
  }

  /// Gives a tree the children of its newest rows; false if it is complete.
  bool grow(Growing& tree, const RowChildren& children, int first_row) {
    if (tree.draws) return draw(tree);
    const auto rows = tree.growth->grow(children, first_row);
    if (rows.empty()) {
      tree.growth->finish(*tree.job->tree, tree.job->source);
      return false;
    }
    tree.newest = static_cast<int>(tree.tokens.size());
    for (const GrowthRow& row : rows) {
      tree.tokens.push_back(own_token(row.token));
      tree.parents.push_back(row.parent);
    }
    tree.outputs = static_cast<int>(rows.size());
    tree.place = tree.place.after(1);
    return true;
  }

  /// A row is one token: of one that has several here, the first.
  TokenId own_token(TokenId token) const {
    if (draft_.vocabulary.same) return token;
    std::vector<TokenId> own;
    draft_.vocabulary.append(token, own);
    return own.empty() ? 0 : own.front();
  }

  /// A chain's rows stay in the cache: those that become text need not be run again. A tree's are
  /// run together with those above them.
  void run_level(std::span<Growing> trees) {
    std::vector<SequenceRows> batch;
    for (const Growing& tree : trees) {
      KvSequence* const cache = &tree.state->cache;
      const std::span tokens(tree.tokens);
      const auto newest = tokens.subspan(static_cast<std::size_t>(tree.newest));
      if (is_chain()) {
        batch.push_back({cache, newest, {}, SequenceRows::Logits::last, /*kept=*/true});
      } else {
        batch.push_back({cache, tokens, tree.parents, SequenceRows::Logits::all});
      }
    }
    const ForwardResult result = network_.forward(batch);
    std::vector<std::int32_t> wanted;
    for (std::size_t i = 0; i < trees.size(); ++i) {
      Growing& tree = trees[i];
      const int first = result.first_logits_row[i] + (is_chain() ? 0 : tree.newest);
      for (int row = 0; row < tree.outputs; ++row) wanted.push_back(first + row);
      if (is_chain()) keep(tree.state->cache, std::span(tree.tokens).last(1));
      if (is_staged()) stage_->note(tree.state->stage, features_of(result, i, 1));
    }
    backend_.gather_rows(result.logits, rows_.put(wanted),
                         logits_.rows(static_cast<int>(wanted.size())));
  }

  std::shared_ptr<const DraftModel> shared_;  // with drafters of other options
  const DraftModel& draft_;
  Backend& backend_;
  ModelDrafterOptions options_;
  int target_rows_, context_;
  KvCache cache_;
  Target network_;
  OutputHead output_;
  Buffer logits_;  // [kMostRows, vocabulary of the model]
  IndexList rows_;
  std::unique_ptr<ModelStage> stage_;  // null: none
  int own_roots_ = 0;                  // of texts that are not for others; no token is below -1
  long lost_rows_ = 0;
};

}  // namespace

std::unique_ptr<Drafter> make_model_drafter(std::shared_ptr<const DraftModel> model,
                                            const Model& target, ModelDrafterOptions options) {
  return std::make_unique<ModelDrafter>(std::move(model), target, std::move(options));
}

}  // namespace talon
