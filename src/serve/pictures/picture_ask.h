#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "draw/picture_facts.h"
#include "draw/picture_prompt.h"
#include "serve/api/answer_fields.h"
#include "serve/served_model.h"

namespace talon {

/// What a request for pictures asks beside what all ask.
struct PictureAsk {
  PicturePrompt prompt;
  /// What of the prompt only the engine's thread can compute; may be empty.
  std::function<void(Request&)> prepare;
  std::string shown_prompt;  // in the pictures' files
  std::string caption_hash;  // of a caption's features
  float guidance = 1;
  int guidance_tokens = 0;  // Request
  int partial_images = 0;   // of a stream, each picture
};

/// Fields of OpenAI's images/generations, and Talon's: class, caption_features, guidance,
/// guidance_tokens. Where no guidance or top_k is asked for, that of the model's family is taken
/// (usual_sampling), top_k into `answer`. Throws ApiError naming the field.
PictureAsk read_picture_ask(const Fields& fields, const ServedModel& model, AnswerFields& answer);

/// What the file of the picture with that index tells.
PictureFacts facts_of(const PictureAsk& ask, const AnswerFields& answer, const ServedModel& model,
                      const std::string& drafter, int index);

/// A job for each picture, with a seed of its own: the request's, the next one, ... came: when the
/// request did.
std::vector<Job> picture_jobs(const PictureAsk& ask, const AnswerFields& answer,
                              const ServedModel& model, std::chrono::steady_clock::time_point came);

}  // namespace talon
