#include "engine/admission/admission.h"

#include <algorithm>
#include <climits>

#include "core/error.h"

namespace talon {
namespace {

constexpr SequenceId kRoots = 1 << 29;  // of a text and its guide each

int pages_for(int rows) { return (rows + kPageRows - 1) / kPageRows; }

bool lacks_pages(const KvSequence& cache, int rows) {
  return static_cast<int>(cache.pages().size()) < pages_for(rows);
}

/// Whether the longest answer needs more pages. The last token of an answer is never run.
bool may_grow(const Sequence& sequence) {
  const KvSequence* const guide = sequence.cache->guide();
  const int rows = sequence.limit - 1;
  return lacks_pages(*sequence.cache, rows) ||
         (guide && lacks_pages(*guide, rows - sequence.cache->guide_lead()));
}

enum class Part { text, guide };

/// No other text has the root of one whose rows are not for others, or whose tokens do not tell
/// what its rows are.
TextRoot root_of(const Sequence& sequence, Part part) {
  const Request& request = sequence.request;
  TextRoot root{.tenant = request.tenant};
  const bool is_vectors = request.prompt_vectors && part == Part::text;
  if (!request.reuse_prefix || is_vectors) {
    const auto number = static_cast<TokenId>(2 * (sequence.id % kRoots));
    root.before = -2 - number - (part == Part::guide ? 1 : 0);
  }
  return root;
}

void set_limit(Sequence& sequence, Target& target) {
  const long wanted = static_cast<long>(sequence.prompt_length()) + sequence.request.max_new;
  const long most = std::min(wanted, static_cast<long>(target.model().config.context));
  sequence.limit =
      static_cast<int>(std::min(most, cache_positions(sequence.request, target.cache())));
  sequence.limit_reason = sequence.limit < most ? FinishReason::no_room : FinishReason::length;
}

}  // namespace

long cache_positions(const Request& request, const KvCache& cache) {
  return static_cast<long>(cache.total_pages() / request.streams()) * kPageRows;
}

bool claim_room(Sequence& sequence, const Sequences& running, Target& target, int most_reused,
                int chunk) {
  set_limit(sequence, target);
  KvCache& cache = target.cache();
  int spare = 0;
  for (const auto& other : running) {
    if (!other->finished() && may_grow(*other)) spare += other->streams();
  }
  if (cache.free_pages() <= spare) return false;

  const std::span<const TokenId> text = sequence.tokens;
  const Request& request = sequence.request;
  const bool guided = sequence.is_guided();  // two texts, of which different parts are remembered
  const bool reuses = request.reuse_prefix && !guided && !request.prompt_vectors;
  sequence.cache.emplace(cache.start(text, reuses, root_of(sequence, Part::text), most_reused));
  if (guided) {
    const auto lead = static_cast<int>(request.prompt.size() - request.guide_prompt.size());
    const TextRoot root = root_of(sequence, Part::guide);
    sequence.cache->pair(cache.start({}, false, root), request.guide_prompt, lead);
  }
  const int rows = std::min(sequence.rows_to_cache() + 1, sequence.limit - 1);
  bool has_room = sequence.cache->reserve(rows - sequence.cache->length(), chunk);
  if (has_room && !running.empty()) {
    if (may_grow(sequence)) spare += sequence.streams();
    has_room = cache.free_pages() >= spare;
  }
  if (!has_room) sequence.cache.reset();
  return has_room;
}

bool end_guides(const Sequences& running) {
  bool ended = false;
  for (const auto& sequence : running) {
    if (sequence->finished() || sequence->is_guided() || !sequence->cache->guide()) continue;
    sequence->cache->unpair();
    ended = true;
  }
  return ended;
}

bool give_room(const Sequences& running, int chunk) {
  for (const auto& sequence : running) {
    if (sequence->finished() || sequence->rows_behind() > 0) continue;
    sequence->cache->truncate(sequence->cache->length());
  }
  return std::all_of(running.begin(), running.end(), [&](const auto& sequence) {
    return sequence->finished() ||
           sequence->cache->reserve(std::max(1, sequence->rows_behind()), chunk);
  });
}

int reserve_drafts(KvSequence& cache, int free_pages, int wanted) {
  const KvSequence* const guide = cache.guide();
  const int own = guide ? free_pages / 2 : free_pages;
  const auto room = [&](const KvSequence& of) {
    const long pages = static_cast<long>(of.pages().size()) + own;
    return pages * kPageRows - of.length() - 1;
  };
  const long most =
      std::min({room(cache), guide ? room(*guide) : LONG_MAX, static_cast<long>(wanted)});
  const bool has_room = cache.reserve(1 + static_cast<int>(most));
  expects(has_room, "room for no more than the pages that are free");
  return static_cast<int>(most);
}

}  // namespace talon
