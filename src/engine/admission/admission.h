#pragma once

#include <memory>
#include <vector>

#include "engine/request.h"
#include "engine/sequence.h"
#include "model/cache/kv_cache.h"
#include "model/target.h"

namespace talon {

using Sequences = std::vector<std::unique_ptr<Sequence>>;

/// Positions of the cache that the request's text may have when it is alone; its guide has as many.
long cache_positions(const Request& request, const KvCache& cache);

/// Opens the sequence in the cache with room for its text so far, of which `chunk` rows at most are
/// in flight at once, and the next row; sets its limit.
/// Of the text, at most the first `most_reused` tokens are taken from the cache. False if that room
/// is not free, or not a page more for itself and each of `running` that may yet ask for one.
bool claim_room(Sequence& sequence, const Sequences& running, Target& target, int most_reused,
                int chunk);

/// Takes their guides from those whose next token is not guided, so that no rows of guides are run
/// any more and others have their pages. Whether there was one.
bool end_guides(const Sequences& running);

/// Takes back the room that drafts had, and gives each that runs room for its next row, the first
/// of them first; one that still reads its text for all of it, of which `chunk` rows at most are in
/// flight at once. False when there was too little.
bool give_room(const Sequences& running, int chunk);

/// Room for the root and drafts, at most `wanted`: how many drafts there is room for.
int reserve_drafts(KvSequence& cache, int free_pages, int wanted);

}  // namespace talon
