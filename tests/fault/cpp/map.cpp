/* map.cpp: tests/cpp/map.cpp as a function of fault_cpp. */
#include "fault/cpp/cpp.h"

#define main map_main
#include "../../cpp/map.cpp"
