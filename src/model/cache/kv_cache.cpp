#include "model/cache/kv_cache.h"

#include <algorithm>

#include "backend/index_list.h"
#include "core/error.h"
#include "model/cache/near_memory.h"
#include "model/cache/near_pages.h"
#include "model/cache/page_memory.h"
#include "model/cache/sequence_state.h"

namespace talon {

namespace {
constexpr PageId kNoPage = PageIndex::kNoPage;
}  // namespace

struct KvCache::State {
  State(Backend& on, const KvShape& shape);

  /// A page of the far layers to which no near one belongs.
  std::optional<PageId> take_page() {
    const auto page = pages.allocate();
    if (page && near) near->take_from(*page);
    return page;
  }
  KvPlace place(int layer) const {
    if (places.empty()) return {far_store.get(), layer, KvLayers::far};
    return places[static_cast<std::size_t>(layer)];
  }
  void copy_slots(KvLayers of, std::span<const Slot> from, std::span<const Slot> to) {
    KvStore* store = of == KvLayers::far ? far_store.get() : near_store.get();
    if (store) backend->copy_kv(*store, sources.put(from), targets.put(to));
  }
  void copy_rows(KvLayers of, PageId from, PageId to, int rows) {
    std::vector<Slot> source, target;
    for (int row = 0; row < rows; ++row) {
      source.push_back(from * kPageRows + row);
      target.push_back(to * kPageRows + row);
    }
    copy_slots(of, source, target);
  }

  Backend* backend;
  std::unique_ptr<KvStore> far_store, near_store;  // null: no such layers
  PageMemory pages;
  std::optional<NearMemory> near;
  int reach;
  std::vector<KvPlace> places;  // empty: all layers are far ones
  IndexList sources, targets;
  StateMemory states;
};

struct KvSequence::State {
  KvCache::State* cache;
  TextRoot root;
  std::vector<TokenId> tokens;           // committed
  std::vector<PageId> pages;             // each with one reference of ours
  std::unique_ptr<NearPages> near;       // of a model that has near layers
  std::unique_ptr<SequenceState> state;  // of a model that has states
  std::optional<KvSequence> guide = {};
  std::vector<TokenId> guide_prompt = {};
  int guide_lead = 0;

  int length() const { return static_cast<int>(tokens.size()); }
  int full_pages() const { return length() / kPageRows; }
  int tail_rows() const { return length() % kPageRows; }
  PageMemory::Place place_of(int index) const {
    return {root, index == 0 ? kNoPage : pages[static_cast<std::size_t>(index) - 1]};
  }
  std::span<const TokenId> tokens_of(int index) const {
    const auto all =
        std::span<const TokenId>(tokens).subspan(static_cast<std::size_t>(index) * kPageRows);
    return all.first(std::min<std::size_t>(all.size(), kPageRows));
  }

  ~State();
  void adopt_prefix(std::span<const TokenId> prompt);
  void adopt_state(int prompt_end);
  void go_on_from(int found);
  bool copy_tail();
  bool tail_is_writable() const;
  bool make_tail_writable();
  void remember_pages(int first);
  void remember_near_page(std::size_t index, PageId known);
  void release_pages_from(std::size_t index);
};

namespace {
/// Of one store.
KvShape far_shape(KvShape shape) {
  shape.near = {};
  return shape;
}
KvShape near_shape(const KvShape& shape) {
  return {.layers = static_cast<int>(shape.near.widths.size()),
          .pages = shape.near.pages,
          .type = shape.type,
          .widths = shape.near.widths};
}

/// Where each layer of the cache lies.
std::vector<KvPlace> places_of(const KvShape& shape, KvStore* far, KvStore* near) {
  std::vector<KvPlace> places;
  int next_far = 0, next_near = 0;
  for (const bool is_near : shape.near.layers) {
    places.push_back(is_near ? KvPlace{near, next_near++, KvLayers::near}
                             : KvPlace{far, next_far++, KvLayers::far});
  }
  return places;
}
}  // namespace

KvCache::State::State(Backend& on, const KvShape& shape)
    : backend(&on),
      far_store(shape.layers > 0 ? on.allocate_kv(far_shape(shape)) : nullptr),
      near_store(shape.near.pages > 0 ? on.allocate_kv(near_shape(shape)) : nullptr),
      pages(shape.pages),
      reach(shape.near.reach),
      places(places_of(shape, far_store.get(), near_store.get())),
      sources(on),
      targets(on),
      states(on, shape.states) {
  if (near_store) near.emplace(shape.near.pages, shape.pages);
}

KvCache::KvCache(Backend& backend, const KvShape& shape) {
  expects(shape.near.layers.empty() || shape.states.layers == 0, "near layers or states");
  expects(shape.pages >= 1 && shape.pages <= kMostKvPages, "pages whose slots have numbers");
  state_.reset(new State(backend, shape));
}

KvCache::~KvCache() = default;

KvSequence KvCache::start(std::span<const TokenId> prompt, bool reuse, const TextRoot& root,
                          int most) {
  KvSequence sequence(std::unique_ptr<KvSequence::State>(
      new KvSequence::State{state_.get(), root, {}, {}, {}, {}, {}, {}, 0}));
  KvSequence::State& state = *sequence.state_;
  if (state_->near) state.near = std::make_unique<NearPages>(*state_->near, state_->reach);
  const std::size_t end = prompt.empty() ? 0 : prompt.size() - 1;
  if (reuse) state.adopt_prefix(prompt.first(std::min(end, static_cast<std::size_t>(most))));
  if (state_->states.shape().layers > 0) state.adopt_state(static_cast<int>(end));
  return sequence;
}

int KvCache::total_pages() const { return state_->pages.total(); }
int KvCache::free_pages() const {
  const int far = state_->pages.available();
  return state_->near ? std::min(far, state_->near->available()) : far;
}
int KvCache::rows_at_once() const {
  if (!state_->near || state_->near->total() >= state_->pages.total()) return INT32_MAX;
  return NearPages::most_at_once(state_->reach, state_->near->total());
}
std::size_t KvCache::bytes() const {
  std::size_t bytes = state_->states.bytes();
  if (state_->far_store) bytes += state_->far_store->bytes;
  if (state_->near_store) bytes += state_->near_store->bytes;
  return bytes;
}
KvStore& KvCache::store() { return state_->far_store ? *state_->far_store : *state_->near_store; }
bool KvCache::has_near() const { return state_->near_store != nullptr; }
KvPlace KvCache::place(int layer) const { return state_->place(layer); }
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
    if (match.rows == 0) break;
    memory.acquire(match.page);
    pages.push_back(match.page);
    tokens.insert(tokens.end(), rest.begin(), rest.begin() + match.rows);
    if (match.rows < kPageRows) break;
  }
  go_on_from(length());
  if (tail_rows() > 0 && !copy_tail()) go_on_from(full_pages() * kPageRows);
}

/// Keeps the first `found` positions, or as many of them as near layers can go on from.
void KvSequence::State::go_on_from(int found) {
  if (near) found = near->adopt(pages, found);
  tokens.resize(static_cast<std::size_t>(found));
  release_pages_from(static_cast<std::size_t>((found + kPageRows - 1) / kPageRows));
}

/// The tail lies in a page that others read or the memory keeps: makes it one of our own. False if
/// there is no room (nothing changes then).
bool KvSequence::State::copy_tail() {
  const auto index = static_cast<std::size_t>(full_pages());
  // What is replaced has a reference of ours, so that making room does not give it up.
  const PageId copy = cache->take_page().value_or(kNoPage);
  const PageId near_copy = near ? cache->near->allocate().value_or(kNoPage) : kNoPage;
  const auto give_back = [&] {
    if (copy != kNoPage) cache->pages.release(copy);
    if (near_copy != kNoPage) cache->near->release(near_copy);
  };
  if (copy == kNoPage || (near && near_copy == kNoPage)) {
    give_back();
    return false;
  }
  try {
    cache->copy_rows(KvLayers::far, pages[index], copy, tail_rows());
    if (near) cache->copy_rows(KvLayers::near, near->at(index), near_copy, tail_rows());
  } catch (...) {
    give_back();
    throw;
  }
  cache->pages.release(pages[index]);
  pages[index] = copy;
  if (near) near->replace(index, near_copy);
  return true;
}

KvSequence::State::~State() {
  if (state) state->end(root, tokens);
  // What the last page holds so far may begin a later prompt, too.
  const int tail = full_pages();
  if (tail_rows() > 0 && tail_is_writable()) {
    const PageId page = pages[static_cast<std::size_t>(tail)];
    cache->pages.remember_partial(page, place_of(tail), tokens_of(tail));
    if (near && cache->pages.is_remembered(page)) {
      cache->near->give(near->at(static_cast<std::size_t>(tail)), page);
    }
  }
  release_pages_from(0);
}

void KvSequence::State::release_pages_from(std::size_t index) {
  if (near) near->release_from(index);
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
  const PageId tail = pages[static_cast<std::size_t>(full_pages())];
  if (!cache->pages.forget_if_ours(tail)) return copy_tail();
  if (near) cache->near->take_from(tail);  // who holds a near page holds its far page, too
  return true;
}

/// Remembers the full pages from `first` on. A page that the memory already has with the same
/// tokens takes the place of ours: the values are the same to the bit (row-exactness).
void KvSequence::State::remember_pages(int first) {
  for (int index = first; index < full_pages(); ++index) {
    PageId& page = pages[static_cast<std::size_t>(index)];
    const PageId known = cache->pages.remember(page, place_of(index), tokens_of(index));
    if (known != page) {
      cache->pages.acquire(known);
      cache->pages.release(page);
      page = known;
    }
    if (near) remember_near_page(static_cast<std::size_t>(index), known);
  }
}

/// The near page of far page `known` is that of its positions, or becomes it.
void KvSequence::State::remember_near_page(std::size_t index, PageId known) {
  const PageId there = cache->near->of(known);
  if (there == NearMemory::kNoPage) {
    cache->near->give(near->at(index), known);
  } else if (there != near->at(index)) {
    cache->near->acquire(there);
    near->replace(index, there);
  }
}

KvSequence::KvSequence(std::unique_ptr<State> state) : state_(std::move(state)) {}
KvSequence::KvSequence(KvSequence&&) noexcept = default;
KvSequence& KvSequence::operator=(KvSequence&&) noexcept = default;
KvSequence::~KvSequence() = default;

int KvSequence::length() const { return state_->length(); }
std::span<const TokenId> KvSequence::tokens() const { return state_->tokens; }
std::span<const PageId> KvSequence::pages(KvLayers of) const {
  if (of == KvLayers::far) return state_->pages;
  return state_->near->pages();
}
KvPlace KvSequence::place(int layer) const { return state_->cache->place(layer); }

void KvSequence::pair(KvSequence guide, std::vector<TokenId> prompt, int lead) {
  expects(lead >= 0 && !prompt.empty(), "a guide that begins within the prompt");
  expects(length() == 0 && guide.length() == 0 && !state_->state && !guide.state_->state,
          "sequences without rows and states are paired");
  state_->guide = std::move(guide);
  state_->guide_prompt = std::move(prompt);
  state_->guide_lead = lead;
}

void KvSequence::unpair() { state_->guide.reset(); }

KvSequence* KvSequence::guide() { return state_->guide ? &*state_->guide : nullptr; }
const KvSequence* KvSequence::guide() const { return state_->guide ? &*state_->guide : nullptr; }

int KvSequence::guide_lead() const { return state_->guide_lead; }

int KvSequence::rows_without_guide(int position, int rows) const {
  return std::clamp(state_->guide_lead - position, 0, rows);
}

std::vector<TokenId> KvSequence::guide_tokens(int position, std::span<const TokenId> tokens) const {
  const std::span<const TokenId> prompt = state_->guide_prompt;
  const int left_out = rows_without_guide(position, static_cast<int>(tokens.size()));
  std::vector<TokenId> text(tokens.begin() + left_out, tokens.end());
  const int begin = std::max(0, position + left_out - state_->guide_lead);
  const auto first = std::min(static_cast<std::size_t>(begin), prompt.size());
  const auto differs = prompt.subspan(first, std::min(text.size(), prompt.size() - first));
  std::ranges::copy(differs, text.begin());
  return text;
}

bool KvSequence::reserve(int rows, int at_once) {
  const std::size_t held = state_->pages.size();
  if (!reserve_own(rows, at_once)) return false;
  if (!state_->guide || state_->guide->reserve(rows - rows_without_guide(length(), rows), at_once))
    return true;
  state_->release_pages_from(held);
  return false;
}

bool KvSequence::reserve_own(int rows, int at_once) {
  expects(rows >= 0 && at_once >= 1);
  if (state_->state && !state_->state->claim()) return false;
  PageMemory& memory = state_->cache->pages;
  const auto needed = (static_cast<std::size_t>(state_->length()) + static_cast<std::size_t>(rows) +
                       kPageRows - 1) /
                      kPageRows;
  const std::size_t held = state_->pages.size();
  const std::size_t missing = needed > held ? needed - held : 0;
  if (missing > static_cast<std::size_t>(memory.available())) return false;
  state_->pages.reserve(needed);
  if (state_->near && !state_->near->reserve(needed, rows, at_once)) return false;
  for (std::size_t i = 0; i < missing; ++i) {
    state_->pages.push_back(state_->cache->take_page().value());
  }
  if (!state_->make_tail_writable()) {
    state_->release_pages_from(held);
    return false;
  }
  return true;
}

Slot KvSequence::slot(int row, KvLayers of) const {
  const int position = state_->length() + row;
  const auto page = static_cast<std::size_t>(position / kPageRows);
  expects(row >= 0 && page < state_->pages.size(), "the sequence has room for the row");
  expects(state_->tail_is_writable(), "room was reserved after truncate()");
  if (of == KvLayers::near) {
    expects(state_->near->holds(page), "no more rows are in flight than was said");
    return state_->near->at(page) * kPageRows + position % kPageRows;
  }
  return state_->pages[page] * kPageRows + position % kPageRows;
}

/// Moves the rows of `path` to the places of those that follow the text.
void KvSequence::move_rows(KvLayers of, std::span<const NodeId> path) {
  std::vector<Slot> from, to;
  for (std::size_t i = 0; i < path.size(); ++i) {
    expects(path[i] >= 0 && (i == 0 || path[i] > path[i - 1]), "a path ascends");
    const Slot source = slot(path[i], of);
    if (path[i] == static_cast<NodeId>(i)) continue;
    from.push_back(source);
    to.push_back(slot(static_cast<int>(i), of));
  }
  if (!from.empty()) state_->cache->copy_slots(of, from, to);
}

/// Rows without one beside them come first, in a prompt, where each row follows the one before.
void KvSequence::keep_guide(std::span<const NodeId> path, std::span<const TokenId> tokens) {
  const int left_out = rows_without_guide(length(), static_cast<int>(path.size()));
  std::vector<NodeId> rows(path.begin() + left_out, path.end());
  for (NodeId& row : rows) row -= left_out;
  state_->guide->keep(rows, guide_tokens(length(), tokens));
}

void KvSequence::keep(std::span<const NodeId> path, std::span<const TokenId> tokens) {
  expects(path.size() == tokens.size(), "a kept row has a token");
  if (state_->guide) keep_guide(path, tokens);
  move_rows(KvLayers::far, path);
  if (state_->near) move_rows(KvLayers::near, path);
  const int first = state_->full_pages();
  state_->tokens.insert(state_->tokens.end(), tokens.begin(), tokens.end());
  if (state_->state && !path.empty()) state_->state->commit(state_->root, state_->tokens, path);
  state_->remember_pages(first);
  if (state_->near) state_->near->slide(length());
}

void KvSequence::assume(int count) {
  expects(count >= 0 && !state_->guide, "a text without a guide grows");
  const int first = state_->full_pages();
  state_->tokens.resize(state_->tokens.size() + static_cast<std::size_t>(count));
  expects(state_->tokens.size() <= state_->pages.size() * kPageRows, "room was reserved");
  if (state_->state) state_->state->assume(length());
  state_->remember_pages(first);
  if (state_->near) state_->near->slide(length());
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
  if (state_->guide) state_->guide->truncate(std::max(0, length - state_->guide_lead));
  const bool shorter = length < state_->length();
  state_->tokens.resize(static_cast<std::size_t>(length));
  if (state_->state && (shorter || length == 0)) {
    length = state_->state->begin(state_->root, state_->tokens);
    state_->tokens.resize(static_cast<std::size_t>(length));
  }
  state_->go_on_from(length);
}

}  // namespace talon
