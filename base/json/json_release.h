// Destroys large JSON values safely if memory is short.
#pragma once

namespace tandem {

// Empties a value from its leaves up without allocating. nlohmann's destructor moves the members
// of a list or object into a vector, 16 bytes each, and ends the process if there is no memory for
// it; for empty values it does not. Recursive, so only for values of bounded depth
// (kMaxJsonDepth).
template <typename Json>
void empty_from_leaves(Json& value) noexcept {
  if (value.is_array()) {
    auto& list = value.template get_ref<typename Json::array_t&>();
    for (auto& element : list) empty_from_leaves(element);
    list.clear();
  } else if (value.is_object()) {
    auto& object = value.template get_ref<typename Json::object_t&>();
    for (auto& member : object) empty_from_leaves(member.second);
    object.clear();
  }
}

// Calls it at the end of its scope, for a value that lives longer.
template <typename Json>
class EmptiedFromLeaves {
 public:
  explicit EmptiedFromLeaves(Json& value) : value_(value) {}
  ~EmptiedFromLeaves() { empty_from_leaves(value_); }
  EmptiedFromLeaves(const EmptiedFromLeaves&) = delete;
  EmptiedFromLeaves& operator=(const EmptiedFromLeaves&) = delete;

 private:
  Json& value_;
};

}  // namespace tandem
