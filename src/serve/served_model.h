#pragma once

#include <memory>
#include <optional>
#include <string>

#include "serve/host/model_host.h"
#include "serve/metrics/metrics.h"
#include "serve/pictures/picture_studio.h"
#include "text/chat_template.h"

namespace talon {

/// A model under the name by which requests ask for it.
struct ServedModel {
  std::string name;
  std::unique_ptr<ModelHost> host;
  std::optional<ChatTemplate> chat;         // none: it takes no messages
  std::optional<ChatTemplate> tool_chat;    // for chats with tools; none: the same
  std::unique_ptr<PictureStudio> pictures;  // of a model that draws; null: it writes text
  ModelMetrics* metrics = nullptr;
  long created = 0;  // seconds since 1970

  const ModelConfig& config() const { return host->loaded().model.config; }
  /// Every served model that writes text has one.
  const Tokenizer& tokenizer() const { return *host->loaded().tokenizer; }
};

}  // namespace talon
