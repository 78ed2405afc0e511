#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/host/model_host.h"
#include "serve/metrics/metrics.h"
#include "serve/pictures/picture_studio.h"
#include "text/chat_template.h"

namespace talon {

/// A model under the names by which requests ask for it.
struct ServedModel {
  std::string name;  // the one that answers and metrics tell
  std::vector<std::string> other_names = {};
  std::unique_ptr<ModelHost> host;
  std::optional<ChatTemplate> chat;         // none: it takes no messages
  std::optional<ChatTemplate> tool_chat;    // for chats with tools; none: the same
  std::unique_ptr<PictureStudio> pictures;  // of a model that draws; null: it writes text
  ModelMetrics* metrics = nullptr;
  long created = 0;  // seconds since 1970

  std::vector<std::string> names() const {
    std::vector<std::string> all = {name};
    all.insert(all.end(), other_names.begin(), other_names.end());
    return all;
  }
  const ModelConfig& config() const { return host->loaded().model.config; }
  /// Every served model that writes text has one.
  const Tokenizer& tokenizer() const { return *host->loaded().tokenizer; }
};

}  // namespace talon
