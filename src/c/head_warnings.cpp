#include "c/head_warnings.h"

#include "runtime/heads/heads.h"
#include "runtime/heads/pairing.h"

namespace talon {

HeadFinder find_heads(const SharedModel& model, const char* const* folders, std::size_t count,
                      std::vector<std::string>& warnings) {
  return heads_of(model.loaded, head_folders(folders, count), [&warnings](std::string_view why) {
    warnings.push_back(fmt::format("a draft head is passed over: {}", why));
  });
}

void warn_of_heads(const std::string& drafter, const SharedModel& model,
                   std::vector<std::string>& warnings) {
  for (const std::string& head : heads_of_another(drafter, model.loaded.fingerprint)) {
    warnings.push_back(fmt::format(
        "the draft head {} was made for another model than {}: few guesses may be right", head,
        model.path));
  }
}

}  // namespace talon
