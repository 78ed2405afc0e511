#include "engine/admission/waiting_line.h"

#include <algorithm>

#include "core/hold_room.h"

namespace talon {

void WaitingLine::hold_room(std::size_t count) { talon::hold_room(places_, count); }

void WaitingLine::insert(std::unique_ptr<Sequence> sequence, std::int64_t tried) {
  const auto later = std::find_if(places_.begin(), places_.end(), [&](const Place& place) {
    const auto order = [](const Sequence& of) { return std::pair(of.request.priority, of.id); };
    return order(*place.sequence) > order(*sequence);
  });
  places_.insert(later, Place{std::move(sequence), tried});
}

std::unique_ptr<Sequence> WaitingLine::take(const std::function<bool(Sequence&)>& claim) {
  for (auto place = places_.begin(); place != places_.end(); ++place) {
    const bool passes = place != places_.begin();
    if (passes && places_.front().passed == kMostPasses) return nullptr;
    if (place->tried == occasion_) continue;
    place->tried = occasion_;
    if (!claim(*place->sequence)) continue;
    if (passes) ++places_.front().passed;
    return take_from(place);
  }
  return nullptr;
}

std::unique_ptr<Sequence> WaitingLine::take_ended(Sequence::Clock::time_point now) {
  const auto place = std::find_if(places_.begin(), places_.end(), [&](const Place& candidate) {
    return candidate.sequence->is_over(now);
  });
  return place == places_.end() ? nullptr : take_from(place);
}

std::unique_ptr<Sequence> WaitingLine::take_from(std::vector<Place>::iterator place) {
  std::unique_ptr<Sequence> taken = std::move(place->sequence);
  places_.erase(place);
  return taken;
}

Sequence* WaitingLine::find(SequenceId id) const {
  const auto found = std::find_if(places_.begin(), places_.end(),
                                  [&](const Place& place) { return place.sequence->id == id; });
  return found == places_.end() ? nullptr : found->sequence.get();
}

}  // namespace talon
