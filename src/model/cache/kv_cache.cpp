#include "model/cache/kv_cache.h"

#include <algorithm>

#include "backend/index_list.h"
#include "core/error.h"
#include "model/cache/page_memory.h"
#include "model/cache/sequence_state.h"

namespace talon {

struct KvCache::State {
  Backend* backend;
  std::unique_ptr<KvStore> store;
  PageMemory pages;
  IndexList sources, targets;
  StateMemory states;

  void copy_slots(std::span<const Slot> from, std::span<const Slot> to) {
    backend->copy_kv(*store, sources.put(from), targets.put(to));
  }
  void copy_rows(PageId from, PageId to, int rows) {
    std::vector<Slot> source, target;
    for (int row = 0; row < rows; ++row) {
      source.push_back(from * kPageRows + row);
      target.push_back(to * kPageRows + row);
    }
    copy_slots(source, target);
  }
};

struct KvSequence::State {
  KvCache::State* cache;
  TextRoot root;
  std::vector<TokenId> tokens;           // committed
  std::vector<PageId> pages;             // each with one reference of ours
  std::unique_ptr<SequenceState> state;  // of a model that has states
  std::optional<KvSequence> guide = {};
  std::vector<TokenId> guide_prompt = {};

  int length() const { return static_cast<int>(tokens.size()); }
  int full_pages() const { return length() / kPageRows; }
  int tail_rows() const { return length() % kPageRows; }
  PageMemory::Place place_of(int index) const {
    return {root, index == 0 ? PageMemory::kNoPage : pages[static_cast<std::size_t>(index) - 1]};
  }
  std::span<const TokenId> tokens_of(int index) const {
    const auto all =
        std::span<const TokenId>(tokens).subspan(static_cast<std::size_t>(index) * kPageRows);
    return all.first(std::min<std::size_t>(all.size(), kPageRows));
  }

  ~State();
  void adopt_prefix(std::span<const TokenId> prompt);
  void adopt_state(int prompt_end);
  void adopt_rows(const PageMemory::Match& match, std::span<const TokenId> rest);
  bool tail_is_writable() const;
  bool make_tail_writable();
  void remember_pages(int first);
  void release_pages_from(std::size_t index);
};

namespace {
constexpr int kMostPages = INT32_MAX / kPageRows;  // a slot is an int32
constexpr int kUsualSlots = 16, kFewestSlots = 2;  // of states
}  // namespace

KvShape kv_shape(const ModelConfig& config, int pages, KvType type) {
  KvShape shape{0, config.kv_heads, config.head_dim, pages, type};
  const KvWidth usual = shape.width(0);
  std::vector<KvWidth> widths;
  bool alike = true;
  for (const LayerPlan& plan : config.plans) {
    if (!plan.writes_cache) continue;
    widths.push_back({plan.kv_heads, plan.head_dim, plan.values()});
    alike &= widths.back() == usual;
  }
  for (const LayerPlan& plan : config.plans) {
    const RecurrentPlan& r = plan.recurrent;
    if (r.value_heads == 0) continue;
    shape.states = {shape.states.layers + 1,
                    kUsualSlots,
                    r.key_heads,
                    r.value_heads,
                    r.key_dim,
                    r.value_dim,
                    r.kernel};
  }
  shape.layers = static_cast<int>(widths.size());
  if (!alike) shape.widths = std::move(widths);
  return shape;
}

KvShape within_budget(KvShape shape, std::size_t budget_bytes) {
  const std::size_t page_bytes = kv_page_bytes(shape);
  std::size_t states = 0;
  if (const std::size_t slot_bytes = shape.states.slot_bytes(); slot_bytes > 0) {
    // A quarter for states.
    const std::size_t slots = budget_bytes / 4 / slot_bytes;
    shape.states.slots =
        static_cast<int>(std::clamp<std::size_t>(slots, kFewestSlots, kUsualSlots));
    states = slot_bytes * static_cast<std::size_t>(shape.states.slots);
  }
  if (budget_bytes < states + page_bytes) {
    fail("allocate the key-value cache: expected a budget of at least one page, {} bytes, found {}",
         states + page_bytes, budget_bytes);
  }
  const std::size_t pages = (budget_bytes - states) / page_bytes;
  shape.pages = static_cast<int>(std::min<std::size_t>(pages, kMostPages));
  return shape;
}

KvCache::KvCache(Backend& backend, const KvShape& shape) {
  expects(shape.pages >= 1 && shape.pages <= kMostPages, "pages whose slots have numbers");
  state_.reset(new State{&backend, backend.allocate_kv(shape), PageMemory(shape.pages),
                         IndexList(backend), IndexList(backend),
                         StateMemory(backend, shape.states)});
}

KvCache::~KvCache() = default;

KvSequence KvCache::start(std::span<const TokenId> prompt, bool reuse, const TextRoot& root,
                          int most) {
  KvSequence sequence(std::unique_ptr<KvSequence::State>(
      new KvSequence::State{state_.get(), root, {}, {}, {}, {}, {}}));
  KvSequence::State& state = *sequence.state_;
  const std::size_t end = prompt.empty() ? 0 : prompt.size() - 1;
  if (reuse) state.adopt_prefix(prompt.first(std::min(end, static_cast<std::size_t>(most))));
  if (state_->states.shape().layers > 0) state.adopt_state(static_cast<int>(end));
  return sequence;
}

int KvCache::total_pages() const { return state_->pages.total(); }
int KvCache::free_pages() const { return state_->pages.available(); }
std::size_t KvCache::bytes() const { return state_->store->bytes + state_->states.bytes(); }
KvStore& KvCache::store() { return *state_->store; }
StateMemory& KvCache::states() { return state_->states; }

/// Keeps as much of the adopted prefix as there is a state behind. Where this text leaves it, and
/// where its answer begins, others may part from it, too: the states there are worth keeping.
void KvSequence::State::adopt_state(int prompt_end) {
  state = std::make_unique<SequenceState>(cache->states);
  const int found = length();
  const int begin = state->begin(root, tokens);
  tokens.resize(static_cast<std::size_t>(begin));
  release_pages_from(static_cast<std::size_t>((begin + kPageRows - 1) / kPageRows));
  std::vector<int> worth;
  if (found > begin) worth.push_back(found);
  if (prompt_end > found) worth.push_back(prompt_end);
  state->save_at(std::move(worth));
}

/// Takes over the remembered full pages with which `prompt` begins, and a copy of the rows of the
/// page that goes on longest.
void KvSequence::State::adopt_prefix(std::span<const TokenId> prompt) {
  PageMemory& memory = cache->pages;
  tokens.reserve(prompt.size());
  pages.reserve(prompt.size() / kPageRows + 1);
  while (true) {
    const auto rest = prompt.subspan(tokens.size());
    const auto match = memory.longest_match(place_of(full_pages()), rest);
    if (match.rows < kPageRows) {
      if (match.rows > 0) adopt_rows(match, rest);
      return;
    }
    memory.acquire(match.page);
    pages.push_back(match.page);
    tokens.insert(tokens.end(), rest.begin(), rest.begin() + kPageRows);
  }
}

/// Copies the rows of a page that holds the first of `rest`, if there is room.
void KvSequence::State::adopt_rows(const PageMemory::Match& match, std::span<const TokenId> rest) {
  PageMemory& memory = cache->pages;
  memory.acquire(match.page);  // so that making room does not give it up
  const auto copy = memory.allocate();
  if (copy) pages.push_back(*copy);
  memory.release(match.page);
  if (!copy) return;
  cache->copy_rows(match.page, *copy, match.rows);
  tokens.insert(tokens.end(), rest.begin(), rest.begin() + match.rows);
}

KvSequence::State::~State() {
  if (state) state->end(root, tokens);
  // What the last page holds so far may begin a later prompt, too.
  const int tail = full_pages();
  if (tail_rows() > 0 && tail_is_writable()) {
    cache->pages.remember_partial(pages[static_cast<std::size_t>(tail)], place_of(tail),
                                  tokens_of(tail));
  }
  release_pages_from(0);
}

void KvSequence::State::release_pages_from(std::size_t index) {
  while (pages.size() > index) {
    cache->pages.release(pages.back());
    pages.pop_back();
  }
}

bool KvSequence::State::tail_is_writable() const {
  return tail_rows() == 0 || cache->pages.is_private(pages[static_cast<std::size_t>(full_pages())]);
}

/// After truncate() the tail may lie in a page that others read or the memory keeps: such a page is
/// never written.
bool KvSequence::State::make_tail_writable() {
  if (tail_is_writable()) return true;
  PageMemory& memory = cache->pages;
  PageId& tail = pages[static_cast<std::size_t>(full_pages())];
  if (memory.forget_if_ours(tail)) return true;
  const auto copy = memory.allocate();
  if (!copy) return false;
  try {
    cache->copy_rows(tail, *copy, tail_rows());
  } catch (...) {
    memory.release(*copy);
    throw;
  }
  memory.release(tail);
  tail = *copy;
  return true;
}

/// Remembers the full pages from `first` on. A page that the memory already has with the same
/// tokens takes the place of ours: the values are the same to the bit (row-exactness).
void KvSequence::State::remember_pages(int first) {
  for (int index = first; index < full_pages(); ++index) {
    PageId& page = pages[static_cast<std::size_t>(index)];
    const PageId known = cache->pages.remember(page, place_of(index), tokens_of(index));
    if (known == page) continue;
    cache->pages.acquire(known);
    cache->pages.release(page);
    page = known;
  }
}

KvSequence::KvSequence(std::unique_ptr<State> state) : state_(std::move(state)) {}
KvSequence::KvSequence(KvSequence&&) noexcept = default;
KvSequence& KvSequence::operator=(KvSequence&&) noexcept = default;
KvSequence::~KvSequence() = default;

int KvSequence::length() const { return state_->length(); }
std::span<const TokenId> KvSequence::tokens() const { return state_->tokens; }
std::span<const PageId> KvSequence::pages() const { return state_->pages; }

void KvSequence::pair(KvSequence guide, std::vector<TokenId> prompt) {
  expects(length() == 0 && guide.length() == 0 && !state_->state && !guide.state_->state,
          "sequences without rows and states are paired");
  state_->guide = std::move(guide);
  state_->guide_prompt = std::move(prompt);
}

KvSequence* KvSequence::guide() { return state_->guide ? &*state_->guide : nullptr; }

std::vector<TokenId> KvSequence::guide_tokens(int position, std::span<const TokenId> tokens) const {
  const std::span<const TokenId> prompt = state_->guide_prompt;
  std::vector<TokenId> text(tokens.begin(), tokens.end());
  const auto first = std::min(static_cast<std::size_t>(position), prompt.size());
  const auto differs = prompt.subspan(first, std::min(text.size(), prompt.size() - first));
  std::ranges::copy(differs, text.begin());
  return text;
}

bool KvSequence::reserve(int rows) {
  const std::size_t held = state_->pages.size();
  if (!reserve_own(rows)) return false;
  if (!state_->guide || state_->guide->reserve(rows)) return true;
  state_->release_pages_from(held);
  return false;
}

bool KvSequence::reserve_own(int rows) {
  expects(rows >= 0);
  if (state_->state && !state_->state->claim()) return false;
  PageMemory& memory = state_->cache->pages;
  const auto needed = (static_cast<std::size_t>(state_->length()) + static_cast<std::size_t>(rows) +
                       kPageRows - 1) /
                      kPageRows;
  const std::size_t held = state_->pages.size();
  const std::size_t missing = needed > held ? needed - held : 0;
  if (missing > static_cast<std::size_t>(memory.available())) return false;
  state_->pages.reserve(needed);
  for (std::size_t i = 0; i < missing; ++i) state_->pages.push_back(memory.allocate().value());
  if (!state_->make_tail_writable()) {
    state_->release_pages_from(held);
    return false;
  }
  return true;
}

Slot KvSequence::slot(int row) const {
  const int position = state_->length() + row;
  const auto page = static_cast<std::size_t>(position / kPageRows);
  expects(row >= 0 && page < state_->pages.size(), "the sequence has room for the row");
  expects(state_->tail_is_writable(), "room was reserved after truncate()");
  return state_->pages[page] * kPageRows + position % kPageRows;
}

void KvSequence::keep(std::span<const NodeId> path, std::span<const TokenId> tokens) {
  expects(path.size() == tokens.size(), "a kept row has a token");
  if (state_->guide) {
    state_->guide->keep(path, guide_tokens(length(), tokens));
  }
  std::vector<Slot> from, to;
  for (std::size_t i = 0; i < path.size(); ++i) {
    expects(path[i] >= 0 && (i == 0 || path[i] > path[i - 1]), "a path ascends");
    const Slot source = slot(path[i]);
    if (path[i] == static_cast<NodeId>(i)) continue;
    from.push_back(source);
    to.push_back(slot(static_cast<int>(i)));
  }
  if (!from.empty()) state_->cache->copy_slots(from, to);
  const int first = state_->full_pages();
  state_->tokens.insert(state_->tokens.end(), tokens.begin(), tokens.end());
  if (state_->state && !path.empty()) state_->state->commit(state_->root, state_->tokens, path);
  state_->remember_pages(first);
}

void KvSequence::lay_out_states(int first, int count, std::span<const NodeId> parents, bool kept,
                                int flight, AttentionLayout& layout) {
  expects(state_->state != nullptr, "a cache of a model with states");
  state_->state->lay_out(length(), first, count, parents, kept, flight, layout);
}

void KvSequence::settle_states() {
  if (state_->state) state_->state->settle();
}

void KvSequence::truncate(int length) {
  expects(length >= 0 && length <= state_->length(), "truncate() shortens");
  if (state_->guide) state_->guide->truncate(length);
  const bool shorter = length < state_->length();
  state_->tokens.resize(static_cast<std::size_t>(length));
  if (state_->state && (shorter || length == 0)) {
    length = state_->state->begin(state_->root, state_->tokens);
    state_->tokens.resize(static_cast<std::size_t>(length));
  }
  state_->release_pages_from(static_cast<std::size_t>((length + kPageRows - 1) / kPageRows));
}

}  // namespace talon
